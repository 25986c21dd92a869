"""`koordpy quota preview`: root quotas that profiles would get."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from koordpy.commands.quota import quota

PREFIX = "quota.scheduling.koordinator.sh/"
PROFILE: dict[str, Any] = {
    "apiVersion": "quota.koordinator.sh/v1alpha1",
    "kind": "ElasticQuotaProfile",
    "metadata": {"name": "pool-a", "namespace": "n", "labels": {f"{PREFIX}tree-id": "7"}},
    "spec": {"quotaName": "root-a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "resourceRatio": "0.5"},
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"pool": "a"}},
    "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}},
}


def shown(folder: Path, *documents: dict[str, Any], output: str = "json") -> tuple[int, Any]:
    file = folder / "objects.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    result = CliRunner().invoke(quota, ["preview", "-f", str(file), "--offline", "-o", output])
    return result.exit_code, json.loads(result.output) if output == "json" else result.output


def test_a_new_profile_shows_the_quota_to_create(tmp_path: Path) -> None:
    code, [found] = shown(tmp_path, PROFILE, NODE)
    assert (code, found["profile"], found["quota"], found["action"]) == (0, "n/pool-a", "n/root-a", "create")
    assert found["patch"]["spec"]["min"] == {"cpu": "4", "memory": "8Gi"}


def test_a_changed_profile_shows_what_would_change_of_its_quota(tmp_path: Path) -> None:
    _, [made] = shown(tmp_path, PROFILE, NODE)
    stored = made["patch"]
    assert shown(tmp_path, PROFILE, NODE, stored)[1][0]["action"] == "none"
    spec = {**PROFILE["spec"], "resourceRatio": "0.25"}
    _, [found] = shown(tmp_path, {**PROFILE, "spec": spec}, NODE, stored)
    assert found["action"] == "update"
    assert found["patch"]["spec"] == {"min": {"cpu": "2", "memory": "4Gi"}}


def test_a_profile_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    selector = {"matchExpressions": [{"key": "pool", "operator": "Near"}]}
    broken = {**PROFILE, "spec": {**PROFILE["spec"], "nodeSelector": selector}}
    code, [found] = shown(tmp_path, broken)
    assert (code, found["action"]) == (3, "none")
    assert "Near" in found["problem"]


def test_the_text_names_every_value(tmp_path: Path) -> None:
    code, text = shown(tmp_path, PROFILE, NODE, output="text")
    assert code == 0
    assert "n/pool-a: quota n/root-a: would be created" in text
    assert "spec.min.cpu: 4" in text


@pytest.mark.parametrize("documents", [(), (NODE,)])
def test_without_a_profile_there_is_nothing_to_preview(
    tmp_path: Path, documents: tuple[dict[str, Any], ...]
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    result = CliRunner().invoke(quota, ["preview", "-f", str(file), "--offline"])
    assert result.exit_code != 0
