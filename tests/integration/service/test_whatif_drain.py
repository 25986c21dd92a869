"""`koordpy whatif --drain` and its endpoint: where the pods of a node would go; nothing is changed."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from tests.integration.service.stage import Stage, picture, serving, until


def owned_by(kind: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "1", "controller": True}]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Two nodes of 4 CPUs; on n0 two pods of 1.5 CPUs, one of 0.8, a daemon and a mirror pod."""
    async with serving(tmp_path, parts=["extender", "debug"]) as stage:
        for name in ("n0", "n1"):
            await stage.add_node(name)
        web: dict[str, Any] = {"labels": {"app": "web"}, "ownerReferences": owned_by("ReplicaSet")}
        for name, cpu, metadata in (
            ("web-0", "1500m", web),
            ("web-1", "1500m", web),
            ("yearly", "800m", {}),
            ("agent", "10m", {"ownerReferences": owned_by("DaemonSet")}),
            ("static", "10m", {"annotations": {"kubernetes.io/config.mirror": "x"}}),
        ):
            assert await stage.bind(await stage.add_pod(name, cpu=cpu, **metadata), "n0") == ""
        assert await stage.bind(await stage.add_pod("other", cpu="600m"), "n1") == ""
        nodes = stage.process.cluster.nodes
        await until(lambda: not any(nodes.is_assumed(pod.metadata.uid) for pod in nodes.pods_on(0)))
        yield stage


async def budget(stage: Stage, allowed: int) -> None:
    document = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
    }
    await stage.client.create_raw(resource_of(PodDisruptionBudget), "default", document)
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2}
    await stage.client.patch_status(PodDisruptionBudget, "default", "web", {"status": status})
    store = stage.process.cluster.store(PodDisruptionBudget)
    await until(lambda: any(item.status.expected_pods == 2 for item in store))


async def running(stage: Stage, *names: str) -> None:
    """Let pods run, ready: those that wait are evicted whatever their budget says."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    store = stage.process.cluster.store(Pod)
    for name in names:
        await stage.client.patch_status(Pod, "default", name, {"status": status})
    await until(
        lambda: all(
            (found := store.get("default", name)) and found.status.phase == "Running" for name in names
        )
    )


async def drain(stage: Stage, node: str) -> Any:
    answer = await stage.http.post(f"{stage.url('debug')}/apis/v1/whatif/drain", params={"node": node})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_pods_are_placed_together_and_some_find_no_node(stage: Stage) -> None:
    before = picture(stage.process.cluster)
    found = await drain(stage, "n0")
    assert {pod["pod"]: pod["node"] for pod in found["pods"]} == {
        "default/web-0": "n1",
        "default/web-1": "n1",
        "default/yearly": "",
    }
    assert (found["placed"], found["withoutPlace"], found["byNode"]) == (2, 1, {"n1": 2})
    [yearly] = [pod for pod in found["pods"] if not pod["node"]]
    assert yearly["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert yearly["notes"] == ["no controller creates it again (kubectl drain needs --force)"]
    assert [pod["pod"] for pod in found["staying"]] == ["default/agent", "default/static"]
    assert "DaemonSet" in found["staying"][0]["reason"]
    assert picture(stage.process.cluster) == before
    assert await drain(stage, "n0") == found


async def test_a_budget_refuses_evictions_beyond_what_it_allows(stage: Stage) -> None:
    await running(stage, "web-0", "web-1")
    await budget(stage, allowed=1)
    found = await drain(stage, "n0")
    refused = {pod["pod"]: pod["evictionRefused"] for pod in found["pods"]}
    assert refused["default/web-0"] == refused["default/yearly"] == ""
    assert refused["default/web-1"].startswith("PodDisruptionBudget web allows 1 disruption now")
    assert (found["refused"], found["placed"]) == (1, 2)


async def test_what_cannot_be_drained_is_an_error(stage: Stage) -> None:
    url = f"{stage.url('debug')}/apis/v1/whatif/drain"
    missing = await stage.http.post(url, params={"node": "n7"})
    assert (missing.status_code, missing.json()["message"]) == (404, "node n7 does not exist")
    assert (await stage.http.post(url)).status_code == 400
    assert (await stage.http.post(url, params={"node": "n0", "count": 3})).status_code == 400


async def koordpy(stage: Stage, *words: str) -> Result:
    where = ("--debug-server", stage.url("debug"))
    return await asyncio.to_thread(CliRunner().invoke, cli, [*words, *where])


async def test_the_command_shows_a_table_and_its_exit_code_tells_of_pods_without_a_place(
    stage: Stage,
) -> None:
    found = await koordpy(stage, "whatif", "--drain", "n0")
    assert found.exit_code == 3
    assert "draining n0: 2 of 3 pods would find another node" in found.output
    assert "no node for default/yearly: 0/1 nodes are available: 1 Insufficient cpu." in found.output
    assert "default/agent stays: its DaemonSet would create it again" in found.output
    empty = await koordpy(stage, "whatif", "--drain", "n1", "-o", "json")
    assert empty.exit_code == 3
    assert json.loads(empty.output)["pods"][0]["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert (await koordpy(stage, "whatif")).exit_code == 2
    assert (await koordpy(stage, "whatif", "--drain", "n0", "-f", "x")).exit_code == 2
