"""What the node agent reports in the NodeMetric of its node, on the embedded API server."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from koordpy.agent.engine.agent import NodeAgent
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.interface import Sample
from koordpy.agent.reporting.node_metric import NodeMetricReporter
from koordpy.api import quantity
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric, NodeSLO
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from tests.integration.service.stage import CRDS, until
from tests.integration.worker.stage import NodeFiles, create

START = datetime(2026, 1, 1, tzinfo=UTC)
NODE_METRIC = resource_of(NodeMetric)


class Stage:
    """The agent of node n1, not running, with the stores of its cluster filled."""

    def __init__(self, server: ApiServer, folder: Path, client: Client) -> None:
        self.clock = FakeClock(START)
        self.client = client
        self.cluster = Cluster(self.clock)
        files = NodeFiles(folder, 1)
        checkpoints = folder / "checkpoints"
        checkpoints.mkdir()
        flags = {"prediction-checkpoint-filepath": str(checkpoints)}
        installed = Installed.find()
        self.agent = NodeAgent(
            AgentSettings.model_validate({"nodeName": "n1", "flags": flags, **files.settings}),
            installed,
            cluster=self.cluster,
            gates=FeatureGates(installed.gate_specs()),
            clock=self.clock,
            client=client,
            rng=random.Random(1),
            sleep=self.sleep,
        )
        [self.reporter] = [each for each in self.agent.services if isinstance(each, NodeMetricReporter)]
        [self.store] = [store for store in self.cluster.stores if store.type is NodeMetric]
        self.pauses = 0

    async def sleep(self, seconds: float) -> None:
        """Let the store catch up instead of waiting."""
        self.pauses += 1
        self.store.put(await self.client.get(NodeMetric, "", "n1"))

    def measure(self, seconds: int, node_cores: float = 3.0) -> None:
        """Append a sample a second of everything, as collectors do."""
        for _ in range(seconds):
            self.clock.advance(1)
            now = self.clock.now()
            values: list[tuple[str, float, dict[str, str]]] = [
                ("node_cpu_usage", node_cores, {}),
                ("node_memory_usage", 8 * 2**30, {}),
                ("sys_cpu_usage", 0.5, {}),
                ("sys_memory_usage", 2**30, {}),
                ("host_application_cpu_usage", 0.25, {"host_app_name": "nginx"}),
                ("host_application_memory_usage", 2**20, {"host_app_name": "nginx"}),
            ]
            for meta in self.agent.states.pods():
                uid = {"pod_uid": meta.pod.metadata.uid}
                values += [("pod_cpu_usage", 1.25, uid), ("pod_memory_usage", 3 * 2**30, uid)]
            self.agent.metrics.append(Sample(kind, value, now, named) for kind, value, named in values)

    async def status(self) -> dict[str, Any]:
        return (await self.client.get_raw(NODE_METRIC, "", "n1"))["status"]


@asynccontextmanager
async def stage_on(server: ApiServer, folder: Path) -> AsyncIterator[Stage]:
    client = Client(Connection.to(Access(server.url)))
    try:
        capacity = {"cpu": "8", "memory": "16Gi", "pods": "20"}
        status = {"capacity": capacity, "allocatable": capacity}
        await create(client, resource_of(Node), {"metadata": {"name": "n1"}}, status)
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}]
        pod = {
            "metadata": {"name": "p", "namespace": "default", "labels": {"koordinator.sh/qosClass": "LS"}},
            "spec": {"nodeName": "n1", "containers": containers},
        }
        await create(client, resource_of(Pod), pod)
        applications = [{"name": "nginx", "priority": "koord-prod", "qos": "LS"}]
        slo = {"metadata": {"name": "n1"}, "spec": {"hostApplications": applications}}
        await create(client, resource_of(NodeSLO), slo)
        policy = {"aggregateDurationSeconds": 60, "nodeAggregatePolicy": {"durations": ["1m", "30m"]}}
        metric = {"metadata": {"name": "n1"}, "spec": {"metricCollectPolicy": policy}}
        await create(client, NODE_METRIC, metric, {"updateTime": "2025-01-01T00:00:00Z", "podsMetric": []})
        stage = Stage(server, folder, client)
        async with Informers(stage.cluster, client):
            await until(lambda: stage.agent.states.synced and stage.reporter.not_ready() is None)
            yield stage
    finally:
        await client.close()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with ApiServer(crds=CRDS) as server, stage_on(server, tmp_path) as made:
        yield made


async def test_a_report_has_the_usage_of_everything(stage: Stage) -> None:
    stage.measure(60)
    stage.agent.prediction.train()
    assert await stage.reporter.report()
    status = await stage.status()
    node_usage = {"resources": {"cpu": "3", "memory": "8Gi"}}
    system_usage = {"resources": {"cpu": "500m", "memory": "1Gi"}}
    pod_usage = {"resources": {"cpu": "1250m", "memory": "3Gi"}}
    kinds = ("avg", "p50", "p90", "p95", "p99")
    assert status["updateTime"] == "2026-01-01T00:01:00Z"
    assert status["nodeMetric"]["nodeUsage"] == node_usage
    assert status["nodeMetric"]["systemUsage"] == system_usage
    assert status["nodeMetric"]["aggregatedNodeUsages"] == [
        {"duration": "1m0s", "usage": dict.fromkeys(kinds, node_usage)},
        {"duration": "30m0s", "usage": {kind: {} for kind in kinds}},
    ]
    assert status["podsMetric"] == [
        {"namespace": "default", "name": "p", "priority": "koord-prod", "qos": "LS", "podUsage": pod_usage}
    ]
    assert status["hostApplicationMetric"] == [
        {
            "name": "nginx",
            "priority": "koord-prod",
            "qos": "LS",
            "usage": {"resources": {"cpu": "250m", "memory": "1Mi"}},
        }
    ]
    # A pod that was just created counts with its requests.
    assert status["prodReclaimableMetric"] == {"resource": {"resources": {"cpu": "0", "memory": "0"}}}
    peak = status["prodPeakMetric"]["resource"]["resources"]
    # 1.25 cores of the pod and 1.75 of the rest, the margin of 10 %, and the width of buckets.
    assert 3300 <= quantity.milli_value(peak["cpu"]) <= 3300 * 1.06


async def test_the_spec_of_the_controller_stays(stage: Stage) -> None:
    before = (await stage.client.get_raw(NODE_METRIC, "", "n1"))["spec"]
    stage.measure(1)
    assert await stage.reporter.report()
    assert (await stage.client.get_raw(NODE_METRIC, "", "n1"))["spec"] == before


async def test_a_pod_without_samples_is_left_out_until_it_has_some(stage: Stage) -> None:
    stage.measure(30)
    stage.clock.advance(3600)
    assert await stage.reporter.report()
    status = await stage.status()
    assert "podsMetric" not in status
    assert status["nodeMetric"]["nodeUsage"] == {}


async def test_a_report_is_repeated_after_a_conflict(stage: Stage) -> None:
    stage.measure(1)
    stale = await stage.client.get(NodeMetric, "", "n1")
    await stage.client.patch(NodeMetric, "", "n1", {"metadata": {"labels": {"a": "b"}}})
    await until(lambda: labels_of(stage) == {"a": "b"})
    stage.store.put(stale)
    assert await stage.reporter.report()
    assert stage.pauses == 1
    assert (await stage.status())["updateTime"] == "2026-01-01T00:00:01Z"


def labels_of(stage: Stage) -> dict[str, str]:
    metric = stage.store.get("", "n1")
    assert metric is not None
    return metric.metadata.labels


async def test_reports_in_quick_succession_are_limited(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    taken = []
    for _ in range(3):
        taken.append(await stage.reporter.report())
        await stage.sleep(0)
    assert taken == [True, True, False]
    assert "updating status is limited qps=0.1 burst=2" in caplog.text
    stage.clock.advance(20)  # room for one more conflict: the watch may be behind
    assert await stage.reporter.report()


async def test_a_deleted_node_metric_is_not_created(stage: Stage) -> None:
    stale = await stage.client.get(NodeMetric, "", "n1")
    await stage.client.delete(NodeMetric, "", "n1")
    await until(lambda: stage.store.get("", "n1") is None)
    stage.store.put(stale)
    assert not await stage.reporter.report()
    assert await stage.client.list_all(NodeMetric) == []


async def test_prod_requests_that_are_not_used_are_reclaimed_after_the_cold_start(stage: Stage) -> None:
    stage.clock.set(datetime.now(UTC) + timedelta(hours=25))
    stage.measure(60, node_cores=1.3)
    stage.agent.prediction.train()
    assert await stage.reporter.report()
    resources = (await stage.status())["prodReclaimableMetric"]["resource"]["resources"]
    # At most the request of 2 cores less the usage of 1.25 and the margin of 10 %.
    assert 300 < quantity.milli_value(resources["cpu"]) < 2000 - 1375
