"""The doctor on a real control plane: an installation that is well, and what is told when a piece is "
"taken out."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import data
from tests.e2e.controlplane.process import free_port
from tests.e2e.installation import NAMESPACE, Installation
from tests.e2e.test_rights import add_node, report_usage
from tests.eventually import PATIENCE, eventually

pytestmark = pytest.mark.timeout(600)

MUTATING = "koordinator-mutating-webhook-configuration"
SCHEDULER = f"system:serviceaccount:{NAMESPACE}:koordpy-scheduler"
WEBHOOKS = f"system:serviceaccount:{NAMESPACE}:koordpy-webhooks"


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The full overlay; its webhooks are registered, a kube-scheduler leads, nodes report their load."""
    with Installation("full", tmp_path_factory.mktemp("installation")) as made:
        # No kube-proxy runs here: kube-apiserver calls by URL.
        here = f"bindAddress: 127.0.0.1\n  port: {free_port()}\n  certificates:\n    host: 127.0.0.1"
        changes = {"/var/run/koordpy": "{folder}", "certificates:": here}
        webhooks = made.component(
            "koordpy-webhooks", {"koordpy-webhooks-config": changes, "koordpy-scheduler-profiles": {}}
        )
        webhooks.start("koordpy-webhooks")
        for name in ("n0", "n1"):
            add_node(made, name)
            made.create(nodemetric(name))  # No worker runs that would.
            report_usage(made, name, [])
        made.scheduler()
        yield made


def nodemetric(name: str) -> dict[str, Any]:
    kind = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric"}
    return {**kind, "metadata": {"name": name}, "spec": {}}


def doctor(installation: Installation, folder: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Run the doctor as an administrator; return its exit code and what it found."""
    command = [sys.executable, "-c", "from koordpy.cli import main; main()", "doctor", "-o", "json"]
    access = ("--kubeconfig", str(installation.plane.kubeconfig))
    done = subprocess.run(
        [*command, *access, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=folder,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]


def config(folder: Path) -> str:
    """Write the settings of a koordpy that has webhooks and extender in this installation."""
    file = folder / "koordpy.yaml"
    file.write_text(yaml.safe_dump({"admission": {"certificates": {"mode": "secret"}}}))
    return str(file)


def shipped(folder: Path) -> str:
    """Write kube-scheduler's configuration as it is installed."""
    text = data.deploy("scheduler", "kube-scheduler-config.yaml").read_text()
    document = yaml.safe_load(text)
    document["leaderElection"] |= {"resourceName": "koordpy-scheduler", "resourceNamespace": NAMESPACE}
    file = folder / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(document))
    return str(file)


def problems(findings: list[dict[str, Any]]) -> dict[str, str]:
    return {found["subject"]: found["message"] for found in findings if found["state"] == "problem"}


def test_what_is_installed_is_well_and_what_is_taken_out_is_missed(
    installation: Installation, tmp_path: Path
) -> None:
    options = ("--config", config(tmp_path), "--scheduler-config", shipped(tmp_path))

    def nothing_is_wrong() -> bool:
        return doctor(installation, tmp_path, *options)[0] == 0  # kube-scheduler takes its time to lead

    assert eventually(nothing_is_wrong), problems(doctor(installation, tmp_path, *options)[1])
    _, findings = doctor(installation, tmp_path, *options)
    agree = [found for found in findings if found["area"] == "clock"]
    assert [found["state"] for found in agree] == ["ok"]
    take_out_the_authority(installation, tmp_path, options)
    take_out_a_definition(installation, tmp_path, options)


def test_the_rights_of_the_service_accounts_are_looked_at(installation: Installation, tmp_path: Path) -> None:
    given = ("--config", config(tmp_path))
    for account, part in ((SCHEDULER, "extender"), (WEBHOOKS, "admission")):
        _, findings = doctor(installation, tmp_path, *given, "--parts", part, "--as", account)
        assert [
            found for found in findings if found["area"] == "rights" and found["state"] == "problem"
        ] == []
    _, findings = doctor(installation, tmp_path, *given, "--parts", "extender", "--as", WEBHOOKS)
    missing = {found["subject"] for found in findings if found["area"] == "rights"}
    assert "create pods/binding" in missing
    assert "list pods" not in missing


def take_out_the_authority(installation: Installation, folder: Path, options: tuple[str, ...]) -> None:
    """Without a running webhook server the configuration is not repaired."""
    installation.stop()
    patch = json.dumps([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}])
    plane = installation.plane
    plane.kubectl("patch", "mutatingwebhookconfiguration", MUTATING, "--type=json", "--patch", patch)
    code, findings = doctor(installation, folder, *options)
    found = problems(findings)
    [subject] = [name for name in found if name.startswith(MUTATING)]
    assert "caBundle is empty" in found[subject]
    assert code == 1


def take_out_a_definition(installation: Installation, folder: Path, options: tuple[str, ...]) -> None:
    installation.plane.kubectl("delete", "crd", "nodemetrics.slo.koordinator.sh")
    _, findings = doctor(installation, folder, *options)
    assert "needed by LoadAwareScheduling" in problems(findings)["nodemetrics.slo.koordinator.sh"]
