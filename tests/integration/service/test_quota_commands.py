"""`koordpy quota`, and `koordpy why` for pods of quotas, about a running service."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from tests.integration.service.stage import Stage, serving, until

PREFIX = "quota.scheduling.koordinator.sh"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    file = tmp_path / "profiles.yaml"
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "ElasticQuota"}]}},
    }
    document: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    file.write_text(yaml.safe_dump(document))
    extender = {"port": 0, "schedulerConfig": str(file), "leaderElect": False}
    async with serving(tmp_path, parts=["extender", "debug"], extender=extender) as made:
        await made.add_node("n0", cpu="16")
        for name, least in (("a", "2"), ("b", "6")):
            await add_quota(made, name, least, "8")
        yield made


async def add_quota(stage: Stage, name: str, least: str, most: str, **labels: str) -> None:
    resource = resource_of(ElasticQuota)
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
    }
    await stage.client.create_raw(resource, "default", document)
    quotas = stage.process.cluster.store(ElasticQuota)
    await until(lambda: quotas.get("default", name) is not None)


async def koordpy(stage: Stage, *arguments: str) -> Result:
    where = ("--debug-server", stage.url("debug"))
    return await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, *where])


async def place(stage: Stage, name: str, quota: str, cpu: str) -> dict[str, Any]:
    pod = await stage.add_pod(name, cpu=cpu, labels={f"{PREFIX}/name": quota})
    assert (await stage.filter(pod, "n0"))["NodeNames"] == ["n0"]
    assert await stage.bind(pod, "n0") == ""
    return pod


async def test_the_tree_shows_what_quotas_use_and_borrow(stage: Stage) -> None:
    await place(stage, "p", "a", "3")
    found = (await stage.get("/apis/v1/quotas")).json()
    rows = {quota["name"]: quota["resources"] for quota in found["quotas"]}
    [row] = rows["a"]
    assert (row["resource"], row["used"], row["min"], row["max"]) == ("cpu", "3", "2", "8")
    assert (row["borrowed"], row["overUsed"]) == ("1", "")
    assert rows["b"][0]["lent"] == "6"
    shown = await koordpy(stage, "quota", "tree", "a")
    assert shown.exit_code == 0
    assert "borrows 1" in shown.output
    assert "\nb " not in shown.output


async def test_a_pod_without_room_is_told_what_is_short_and_who_uses_it(stage: Stage) -> None:
    await place(stage, "old", "a", "6")
    late = await stage.add_pod("late", cpu="4", labels={f"{PREFIX}/name": "a"})
    assert (await stage.filter(late, "n0"))["NodeNames"] == []
    told = await koordpy(stage, "why", "default/late")
    assert told.exit_code == 0
    assert "Insufficient quotas, quotaName: a" in told.output
    assert "QuotaExceeded: quota a has no room for cpu: 6 used and 4 requested" in told.output
    assert "a: cpu 6 used + 4 requested exceeds runtime 8 by 2" in told.output


async def test_a_quota_is_explained_up_to_the_root(stage: Stage) -> None:
    await place(stage, "p", "b", "2")
    shown = await koordpy(stage, "quota", "explain", "b")
    assert "quota b: 1 pod with a node, limited by runtime quota" in shown.output
    assert "no limit is exceeded" in shown.output


async def test_what_is_not_there_is_said(stage: Stage) -> None:
    found = await koordpy(stage, "quota", "explain", "nobody")
    assert (found.exit_code, "quota nobody does not exist" in found.output) == (1, True)
    found = await koordpy(stage, "quota", "tree", "nobody")
    assert (found.exit_code, "quota nobody does not exist" in found.output) == (1, True)
