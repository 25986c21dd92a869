"""The noderesource controller: what it writes, when, and what makes it reconcile."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.config_model import ConfigError
from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology
from koordpy.api.meta import ObjectMeta, format_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import Conflict
from koordpy.controllers.host import feature_gates, installed
from koordpy.controllers.interface import Handle
from koordpy.lib.clock import FakeClock
from koordpy_plugins.controllers.noderesource.args import NodeResourceArgs
from koordpy_plugins.controllers.noderesource.plugin import NodeResourceController

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AMOUNTS = {"cpu": "10", "memory": "10Gi"}
ON = {"colocation-config": '{"enable":true}'}


class Writes:
    """Takes patches down, and applies those of nodes to the store."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.conflicts = cluster, 0
        self.patches: list[Any] = []

    async def patch(self, type_: Any, namespace: str, name: str, patch: Any, **options: Any) -> None:
        if type_ is NodeResourceTopology and self.conflicts:
            self.conflicts -= 1
            raise Conflict("PATCH", name, 409, "Conflict", "changed", {}, None)
        self.patches.append((type_.__name__, options.get("subresource", ""), patch))

    async def get(self, type_: Any, namespace: str, name: str) -> Any:
        return self.cluster.store(type_).get(namespace, name)


class World:
    def __init__(self, data: dict[str, str] | None = None, plugins: tuple[str, ...] = ("*",)) -> None:
        self.clock = FakeClock(NOW)
        self.cluster = Cluster(self.clock)
        self.writes = Writes(self.cluster)
        self.events: list[str] = []
        handle = Handle(
            self.cluster,
            feature_gates(installed()),
            connected=self.writes,  # type: ignore[arg-type]
            clock=self.clock,
        )
        handle.report = lambda regarding, reason, message: self.events.append(reason)  # type: ignore[method-assign, assignment, misc]
        self.controller = NodeResourceController(NodeResourceArgs(plugins=plugins), handle)
        self.controller.setup()
        self.configure(ON if data is None else data)

    def configure(self, data: dict[str, str]) -> None:
        meta = ObjectMeta(namespace="koordinator-system", name="slo-controller-config")
        self.cluster.store(ConfigMap).put(ConfigMap(metadata=meta, data=data))

    def node(self, **annotations: str) -> None:
        document = {
            "metadata": {"name": "n", "annotations": {"a": "b", **annotations}},
            "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS},
        }
        self.cluster.store(Node).put(decode(Node, document))

    def metric(self, at: datetime = NOW, cpu: str = "1") -> None:
        used = {"resources": {"cpu": cpu, "memory": "1Gi"}}
        status = {"updateTime": format_time(at), "nodeMetric": {"nodeUsage": used, "systemUsage": used}}
        self.cluster.store(NodeMetric).put(decode(NodeMetric, {"metadata": {"name": "n"}, "status": status}))

    def queued(self) -> list[str]:
        names = []
        while (name := self.controller.queue.pop()) is not None:
            self.controller.queue.done(name)
            names.append(name)
        return names

    async def reconcile(self) -> list[Any]:
        self.writes.patches.clear()
        await self.controller.reconcile("n")
        return list(self.writes.patches)


def status_of(patches: list[Any]) -> Any:
    return next(patch for kind, subresource, patch in patches if (kind, subresource) == ("Node", "status"))


async def test_batch_resources_are_written_to_the_status() -> None:
    world = World()
    world.node()
    world.metric()
    allocatable = status_of(await world.reconcile())["status"]["allocatable"]
    assert allocatable == {
        extension.BATCH_CPU: "5k",
        extension.BATCH_MEMORY: "5632Mi",
        extension.MID_CPU: "0",
        extension.MID_MEMORY: "0",
    }


async def test_a_stale_report_removes_the_resources() -> None:
    world = World()
    document = {
        "metadata": {"name": "n", "annotations": {"a": "b"}},
        "status": {"capacity": AMOUNTS, "allocatable": {**AMOUNTS, extension.BATCH_CPU: "5"}},
    }
    world.cluster.store(Node).put(decode(Node, document))
    world.metric(NOW - timedelta(minutes=15, seconds=1))
    assert status_of(await world.reconcile())["status"]["allocatable"] == {extension.BATCH_CPU: None}


async def test_the_time_threshold_asks_for_a_write_only_when_it_is_over() -> None:
    world = World(plugins=("BatchResource",))
    world.node(**{extension.ANNOTATION_CPU_NORMALIZATION_RATIO: "1.00"})
    world.metric()
    status = status_of(await world.reconcile())["status"]
    document = {
        "metadata": {"name": "n", "annotations": {"a": "b"}},
        "status": {name: {**AMOUNTS, **status[name]} for name in ("capacity", "allocatable")},
    }
    world.cluster.store(Node).put(decode(Node, document))
    world.metric(cpu="1001m")
    assert await world.reconcile() == []
    world.clock.advance(301)
    assert [(kind, where) for kind, where, _ in await world.reconcile()] == [("Node", "status")]


async def test_what_other_schedulers_took_is_left_out_and_the_origin_recorded() -> None:
    resources = '{"kubernetes.io/batch-cpu":"2k"}'
    taken = f'{{"allocations":[{{"name":"yarn","priority":"koord-batch","resources":{resources}}}]}}'
    world = World()
    world.node(**{extension.ANNOTATION_THIRD_PARTY_ALLOCATIONS: taken})
    world.metric()
    patch = status_of(await world.reconcile())
    assert patch["status"]["allocatable"][extension.BATCH_CPU] == "3k"
    origin = patch["metadata"]["annotations"][extension.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE]
    assert '"kubernetes.io/batch-cpu":"5k"' in origin


async def test_a_topology_is_written_again_after_a_conflict() -> None:
    world = World()
    world.node()
    world.metric()
    amount = {"capacity": "5", "allocatable": "5", "available": "5"}
    zones = [
        {"name": f"node-{at}", "type": "Node", "resources": [{"name": "cpu", **amount}]} for at in (0, 1)
    ]
    document = {"metadata": {"name": "n", "resourceVersion": "7"}, "zones": zones}
    world.cluster.store(NodeResourceTopology).put(decode(NodeResourceTopology, document))
    world.writes.conflicts = 1
    [patch] = [patch for kind, _, patch in await world.reconcile() if kind == "NodeResourceTopology"]
    assert patch["metadata"] == {"resourceVersion": "7"}
    written = {item["name"]: item["allocatable"] for item in patch["zones"][0]["resources"]}
    assert written == {"cpu": "5", extension.BATCH_CPU: "2500", extension.BATCH_MEMORY: "0"}


async def test_nothing_is_done_until_the_configuration_can_be_read() -> None:
    world = World({"colocation-config": "{"})
    world.node()
    world.metric()
    assert await world.reconcile() == []
    assert "ColocationCfgUnmarshalFailed" in world.events
    world.queued()
    world.configure(ON)
    assert world.queued() == ["n"]
    assert await world.reconcile()


def test_reports_pods_and_topologies_enqueue_their_node_alone() -> None:
    world = World()
    world.node()
    other = {"metadata": {"name": "other"}, "status": {"capacity": AMOUNTS, "allocatable": AMOUNTS}}
    world.cluster.store(Node).put(decode(Node, other))
    world.metric()
    world.queued()
    world.metric(cpu="2")
    assert world.queued() == ["n"]
    world.metric(cpu="2")
    assert world.queued() == []


async def test_new_pods_change_the_demand_on_their_node() -> None:
    world = World()
    world.node()
    world.metric()
    before = status_of(await world.reconcile())["status"]["allocatable"][extension.BATCH_CPU]
    requests = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}
    document = {
        "metadata": {"name": "p", "namespace": "d"},
        "spec": {"nodeName": "n", "priority": 9100, **requests},
        "status": {"phase": "Running"},
    }
    world.cluster.store(Pod).put(decode(Pod, document))
    after = status_of(await world.reconcile())["status"]["allocatable"][extension.BATCH_CPU]
    assert (before, after) == ("5k", "3k")
    world.cluster.store(Pod).discard("d/p")
    assert status_of(await world.reconcile())["status"]["allocatable"][extension.BATCH_CPU] == "5k"


async def test_normalization_is_off_and_amplification_absent_without_configuration() -> None:
    world = World()
    world.node()
    world.metric()
    [patch] = [patch for kind, where, patch in await world.reconcile() if (kind, where) == ("Node", "")]
    annotations = patch["metadata"]["annotations"]
    assert annotations[extension.ANNOTATION_CPU_NORMALIZATION_RATIO] == "1.00"
    assert extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO not in annotations


def test_plugins_run_in_koordinators_order() -> None:
    world = World(plugins=("*", "-MidResource"))
    assert [plugin.name for plugin in world.controller.engine.plugins] == [
        "CPUNormalization",
        "ResourceAmplification",
        "BatchResource",
        "GPUDeviceResource",
        "RDMADeviceResource",
    ]


def test_an_unknown_plugin_is_refused() -> None:
    with pytest.raises(ConfigError, match="got 'BatchResources'"):
        World(plugins=("BatchResources",))


def test_an_explanation_has_the_formula_and_why_a_write_is_due() -> None:
    world = World()
    world.node()
    world.metric(NOW - timedelta(seconds=30))
    found = world.controller.explain("n")
    assert found is not None
    assert found.enabled
    assert found.report_age_seconds == 30
    assert found.status_reason == "mid resource diff is big than threshold"
    [cpu] = [item for item in found.resources if item.name == extension.BATCH_CPU]
    assert (cpu.computed, cpu.due, cpu.on_node) == ("5k", "5k", None)
    assert cpu.message.startswith("batchAllocatable[CPU(Milli-Core)]:5000 = nodeCapacity:10000 - ")
    assert world.controller.explain("other") is None


def test_a_configuration_that_cannot_be_read_is_the_explanation() -> None:
    world = World({"colocation-config": "{"})
    world.node()
    found = world.controller.explain("n")
    assert found is not None
    assert "colocation-config cannot be read" in found.problem
