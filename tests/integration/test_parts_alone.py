"""Every part alone, on a cluster that has only what `docs/features.md` says it needs: it does its work.

The definitions that are installed are those of the part's own features and no others, so a part that followed
more than it says would never be ready.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from koordpy import data
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ClusterColocationProfile, NodeResourceTopology, NodeSLO
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.embedded.apiserver import ApiServer
from koordpy.features.catalog import PROOF, features
from koordpy.features.feature import Part, shipped_definitions
from tests.eventually import PATIENCE
from tests.integration.descheduling.test_low_node_load_evicts import World
from tests.integration.service.scheduling import node_of, scheduling, shipped
from tests.integration.service.stage import pod_document, review_of, serving, until
from tests.integration.worker.stage import NodeFiles, agent_settings, create, worker_settings, working
from tests.manifests.render import DEPLOY
from tests.processes import worker_process

PROFILE = {
    "metadata": {"name": "spark", "labels": {"config.koordinator.sh/controller-managed": "true"}},
    "spec": {"selector": {"matchLabels": {"app": "spark"}}, "labels": {"applied": "yes"}},
}
USAGE = {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "100m", "memory": "1Gi"}}}}


def needed(part: Part, *named: str) -> set[str]:
    """Return the definitions that a part's features need, those that are on by default or named."""
    return {
        name
        for feature in features()
        if feature.part is part and (feature.on_by_default or feature.name in named)
        for name in feature.definitions
    }


@asynccontextmanager
async def cluster(definitions: Iterable[str]) -> AsyncIterator[tuple[ApiServer, Client]]:
    """Run an API server with these custom resource definitions alone."""
    files = [data.deploy("crds", f"{name}.yaml") for name in definitions]
    async with ApiServer(crds=files) as server:
        client = Client(Connection.to(Access(server.url)))
        try:
            yield server, client
        finally:
            await client.close()


async def test_the_webhooks_alone(tmp_path: Path) -> None:
    definitions = needed(Part.ADMISSION)
    assert definitions < shipped_definitions()
    async with cluster(definitions) as (server, client):
        await create(client, resource_of(ClusterColocationProfile), PROFILE)
        async with serving(tmp_path, server=server, parts=["admission"]) as stage:
            answer = await stage.review(review_of(pod_document("p", labels={"app": "spark"})))
    response = answer.json()["response"]
    assert response["allowed"] is True
    patch = json.loads(base64.b64decode(response["patch"]))
    assert any("applied" in operation["path"] or "applied" in str(operation) for operation in patch)


@pytest.mark.parametrize(
    ("mode", "config"),
    [("full", "kube-scheduler-config.yaml"), ("light", "kube-scheduler-config-light.yaml")],
)
async def test_the_extender_alone(tmp_path: Path, mode: str, config: str) -> None:
    definitions = needed(Part.EXTENDER)
    assert definitions < shipped_definitions()
    async with cluster(definitions) as (server, _):
        options: dict[str, Any] = {"parts": ["extender"], "extender": {"mode": mode}}
        async with serving(tmp_path, server=server, **options) as stage:
            await stage.add_node("n0")
            await stage.report_usage("n0", {**USAGE, "updateTime": now()})
            async with scheduling(stage, shipped(stage, config)):
                await stage.add_pod("p")
                await until(lambda: node_of(stage, "p") == "n0")
            extender = stage.extender
            assert extender.histories.calls == 1


async def test_the_controllers_alone() -> None:
    async with cluster(needed(Part.CONTROLLERS, "colocationprofile")) as (server, client):
        await create(client, resource_of(ClusterColocationProfile), PROFILE)
        pod = await client.create_raw(resource_of(Pod), "default", pod_document("p", labels={"app": "spark"}))
        assert "applied" not in pod["metadata"]["labels"]
        found = worker_settings(server.url, leaderElect=False)
        found = found.model_copy(update={"feature_gates": {"ColocationProfileController": True}})
        async with working(worker_process(found, "controllers")), asyncio.timeout(PATIENCE):
            while (await client.get(Pod, "default", "p")).metadata.labels.get("applied") != "yes":
                await asyncio.sleep(0.02)


async def test_the_descheduler_alone(tmp_path: Path) -> None:
    text = (DEPLOY / "kustomize" / "base" / "worker" / "descheduler.yaml").read_text()
    file = tmp_path / "descheduler.yaml"
    file.write_text(text.replace("60s", "50ms"))
    async with cluster(needed(Part.DESCHEDULER, "LowNodeLoad", "MigrationController", PROOF)) as (
        server,
        client,
    ):
        world = World(client)
        await world.deploy()
        await world.fill()
        found = worker_settings(server.url, descheduler={"config": str(file)}, leaderElect=False)
        async with working(worker_process(found, "descheduler")), asyncio.timeout(PATIENCE):
            await world.place_reservation("idle")
            while not await world.evicted():
                await asyncio.sleep(0.02)


async def test_the_qos_manager_alone(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path, 2)
    async with cluster(needed(Part.AGENT)) as (server, client):
        capacity = {"cpu": "8", "memory": "16Gi", "pods": "20"}
        status = {"capacity": capacity, "allocatable": capacity}
        await create(client, resource_of(Node), {"metadata": {"name": "n1"}}, status)
        topology = {"metadata": {"name": "n1"}, "topologyPolicies": ["None"], "zones": []}
        await create(client, resource_of(NodeResourceTopology), topology)
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        await create(client, resource_of(Pod), pod)
        section = {"enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset"}
        slo = {"metadata": {"name": "n1"}, "spec": {"resourceUsedThresholdWithBE": section}}
        await create(client, resource_of(NodeSLO), slo)
        found = agent_settings(server.url, nodeName="n1", **files.settings)
        async with working(worker_process(found, "agent")):
            await until(lambda: files.cpus() == "0-5")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
