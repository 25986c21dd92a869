"""What `koordpy record` sees of a cluster, and that a simulation replays it."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import data
from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.store import Store
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import FakeClock
from koordpy.simulation import recorder, scenario, simulation
from koordpy.simulation.masking import Masking
from koordpy.simulation.result import Result
from tests.eventually import PATIENCE

GI = 1 << 30
NODES = ("zeus", "hera", "ares")


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": str(16 * GI), "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "team": "crimson"}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str, node_name: str = "", **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example/secret-product:1",
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"app": "web"},
            "annotations": {"example.org/token": "abc", "koordinator.sh/note": "kept"},
        },
        "spec": {"containers": [container], **({"nodeName": node_name} if node_name else {}), **spec},
    }


class Cluster:
    """An API server with three nodes, spoken to over HTTP."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def fill(self) -> None:
        await self.post("/api/v1/namespaces", {"metadata": {"name": "shop", "labels": {"team": "crimson"}}})
        for name in NODES:
            await self.post("/api/v1/nodes", node(name))
        for i, name in enumerate(("zeus", "zeus", "hera")):
            await self.add(pod(f"web-{i}", name))
        await self.add(pod("waiting", nodeSelector={"kubernetes.io/hostname": "ares"}))
        metric = {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": "zeus"},
        }
        path = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
        await self.post(path, metric)
        pods = [
            {
                "namespace": "shop",
                "name": "web-0",
                "podUsage": {"resources": {"cpu": "700m", "memory": "1Gi"}},
            }
        ]
        usage = {"nodeUsage": {"resources": {"cpu": "1", "memory": "3Gi"}}}
        status = {"updateTime": "2026-01-01T00:00:00Z", "nodeMetric": usage, "podsMetric": pods}
        await self.client.send(
            "PATCH",
            f"{path}/zeus/status",
            json.dumps({"status": status}).encode(),
            content_type="application/merge-patch+json",
        )

    async def post(self, path: str, document: dict[str, Any]) -> None:
        await self.client.send("POST", path, json.dumps(document).encode())

    async def add(self, document: dict[str, Any]) -> None:
        await self.post("/api/v1/namespaces/shop/pods", document)


async def recorded(tmp_path: Path, masking: Masking, seconds: float = 0.0, meanwhile: Any = None) -> Path:
    """Record for so many seconds; `meanwhile` is what happens whenever the recorder has waited."""
    async with ApiServer(crds=sorted(data.deploy("crds").glob("*.yaml"))) as server:
        client = Client(Connection.to(Access(server.url)))
        cluster = Cluster(client)
        await cluster.fill()
        clock = FakeClock(datetime.now(UTC))

        async def sleep(seconds: float) -> None:
            clock.advance(seconds)
            await meanwhile(cluster, found._cluster.store(Pod))

        found = recorder.Recorder(client, masking, clock=clock, sleep=sleep)
        path = tmp_path / "scenario.yaml"
        recorder.write(await found.record(seconds), path, name="shop")
        await client.close()
    return path


async def replayed(path: Path) -> Result:
    told = scenario.load(path)
    return await asyncio.to_thread(simulation.simulate, told, told.schedulers[0], path.parent)


async def test_a_replay_has_the_same_pods_on_the_same_nodes(tmp_path: Path) -> None:
    result = await replayed(await recorded(tmp_path, Masking()))
    placed = {pod.name: pod.node for pod in result.placements}
    assert placed == {
        "shop/web-0": "zeus",
        "shop/web-1": "zeus",
        "shop/web-2": "hera",
        "shop/waiting": "ares",
    }
    assert result.problems == []


async def test_usage_is_recorded_pod_by_pod_and_the_rest_is_the_nodes(tmp_path: Path) -> None:
    path = await recorded(tmp_path, Masking())
    nodes = {group["name"]: group for group in yaml.safe_load(path.read_text())["nodes"]}
    assert nodes["zeus"]["systemUsage"] == {"cpu": "300m", "memory": str(2 * GI)}
    rows = [json.loads(line) for line in (tmp_path / "scenario.pods.jsonl").read_text().splitlines()]
    [web] = [row for row in rows if row["pod"]["metadata"]["name"] == "web-0"]
    assert [value for _, value in web["usage"]["cpu"]] == [700]
    assert [value for _, value in web["usage"]["memory"]] == [GI]


async def test_what_is_private_is_not_recorded(tmp_path: Path) -> None:
    path = await recorded(tmp_path, Masking())
    text = path.read_text() + (tmp_path / "scenario.pods.jsonl").read_text()
    for private in ("hunter2", "PASSWORD", "secret-product", "abc"):
        assert private not in text
    assert "koordinator.sh/note" in text


async def test_anonymous_names_are_consistent(tmp_path: Path) -> None:
    path = await recorded(tmp_path, Masking(anonymous=True))
    text = path.read_text() + (tmp_path / "scenario.pods.jsonl").read_text()
    for name in (*NODES, "shop/", "web", "crimson"):
        assert name not in text, name
    result = await replayed(path)
    nodes = [group["name"] for group in yaml.safe_load(path.read_text())["nodes"]]
    counts = sorted((sum(pod.node == name for pod in result.placements), name) for name in nodes)
    assert [count for count, _ in counts] == [1, 1, 2]
    assert result.pods.pending_at_end == 0  # its selector names the node as the recording does


async def test_arrivals_and_ends_are_recorded_while_it_lasts(tmp_path: Path) -> None:
    async def happen(cluster: Cluster, known: Store[Pod]) -> None:
        await cluster.add(pod("late"))
        await cluster.client.send(
            "DELETE", "/api/v1/namespaces/shop/pods/web-2?gracePeriodSeconds=0", repeatable=True
        )
        names = {"web-0", "web-1", "waiting", "late"}
        async with asyncio.timeout(PATIENCE):
            while {pod.metadata.name for pod in known} != names:
                await asyncio.sleep(0.01)

    await recorded(tmp_path, Masking(), 1.0, happen)
    rows = {}
    for line in (tmp_path / "scenario.pods.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows[row["pod"]["metadata"]["name"]] = row
    assert rows["late"]["duration"] is None
    assert "nodeName" not in rows["late"]["pod"]["spec"]
    assert rows["web-2"]["duration"] == 1
    assert rows["web-0"]["duration"] is None


def test_an_invalid_duration_is_reported(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from koordpy.cli import cli

    done = CliRunner().invoke(cli, ["record", "--duration", "soon", "--to", str(tmp_path / "x.yaml")])
    assert done.exit_code != 0
    assert "is not a duration" in done.output


@pytest.fixture(autouse=True)
def _no_cluster_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
