"""`koordpy profile explain` and `preview` with the configuration of the webhooks."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from koordpy.cli import cli

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}\n"
    "spec: {containers: [{name: a, image: a}]}\n"
)
PROFILE = (
    "apiVersion: config.koordinator.sh/v1alpha1\nkind: ClusterColocationProfile\nmetadata: {name: p}\n"
    "spec: {selector: {matchLabels: {app: web}}, qosClass: BE}\n"
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pod").write_text(POD)
    (tmp_path / "profile").write_text(PROFILE)
    (tmp_path / "all").write_text(f"{POD}---\n{PROFILE}")
    (tmp_path / "off").write_text("admission: {disabled: [validate-pod.ClusterColocationProfile]}\n")
    (tmp_path / "no-webhook").write_text("featureGates: {PodMutatingWebhook: false}\n")
    monkeypatch.chdir(tmp_path)


def koordpy(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["profile", *arguments])


def test_a_refused_pod_is_a_bad_result() -> None:
    done = koordpy("explain", "-f", "all")
    assert done.exit_code == 3
    assert "refused by /validate-pod" in done.output
    assert koordpy("explain", "-f", "pod").exit_code == 0


def test_the_handlers_of_the_configuration_count() -> None:
    done = koordpy("explain", "-f", "all", "--config", "off")
    assert done.exit_code == 0, done.output
    assert "matches p" in done.output


def test_a_preview_has_the_handlers_of_the_configuration() -> None:
    assert koordpy("preview", "-f", "profile", "--pods", "pod").exit_code == 3
    done = koordpy("preview", "-f", "profile", "--pods", "pod", "--config", "off")
    assert done.exit_code == 0, done.output
    assert "1 of 1 pod would be different" in done.output


def test_the_gates_of_the_configuration_count_and_an_option_overrides_them() -> None:
    done = koordpy("explain", "-f", "pod", "--config", "no-webhook")
    assert "its feature gate is off" in done.output + str(done.exception)
    option = ("--feature-gates", "PodMutatingWebhook=true")
    assert koordpy("explain", "-f", "pod", "--config", "no-webhook", *option).exit_code == 0
