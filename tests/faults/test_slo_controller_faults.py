"""Hostile NodeMetrics, nodes and configurations make no negative or endless resources, and stop no round."""

import json
import logging
import math
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from koordpy.api import quantity
from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.decoding import DecodeError
from koordpy.api.device import Device
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology, NodeSLO
from koordpy.api.meta import ObjectMeta, format_time
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.host import feature_gates, installed
from koordpy.controllers.interface import Handle
from koordpy.controllers.reconcile import reconcile_once
from koordpy.lib.clock import FakeClock
from koordpy_plugins.controllers.nodemetric.plugin import NodeMetricController
from koordpy_plugins.controllers.noderesource.args import NodeResourceArgs
from koordpy_plugins.controllers.noderesource.plugin import NodeResourceController
from koordpy_plugins.controllers.nodeslo.plugin import NodeSLOController

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EXAMPLES = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))

QUANTITIES = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "1e30",
        "-1e30",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1.5",
        "1n",
        "100m",
        "10Gi",
        "8Ei",
        "-8Ei",
        "1E",
        "0.000000001",
        "999999999999999999999",
        "1e-30",
    ]
)
NONSENSE: st.SearchStrategy[Any] = st.sampled_from(
    ["1.5.2", "", "NaN", "inf", "x", " 1", None, [], {}, True, 1.5, -3, 10**30]
)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "kubernetes.io/batch-cpu", "x/y"]), QUANTITIES | NONSENSE, max_size=4
)
SOUND = st.fixed_dictionaries({"cpu": QUANTITIES, "memory": QUANTITIES})
USAGE = st.fixed_dictionaries({"resources": SOUND | AMOUNTS})
TIMES = st.sampled_from(
    [NOW, NOW - timedelta(days=1), NOW + timedelta(days=1), datetime(1, 1, 2, tzinfo=UTC)]
)
PODS_METRIC = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["p0", "p1", "gone", "", "../x"]),
        "namespace": st.sampled_from(["d", ""]),
        "priority": st.sampled_from(["koord-prod", "koord-batch", "", "nope"]),
        "podUsage": USAGE,
    }
)
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "nodeMetric": st.fixed_dictionaries({}, optional={"nodeUsage": USAGE, "systemUsage": USAGE}),
        "podsMetric": st.lists(PODS_METRIC, max_size=3),
        "hostApplicationMetric": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["h", ""]),
                    "usage": USAGE,
                    "qos": st.sampled_from(["LS", "BE", "?"]),
                }
            ),
            max_size=2,
        ),
        "prodReclaimableMetric": st.fixed_dictionaries({"resource": USAGE}),
    },
)
PERCENTS: st.SearchStrategy[Any] = st.sampled_from(
    [0, -1, 50, 100, 101, 2**31, 2**63 - 1, -(2**63), 1.5, 1e300, "x", None, [], True]
)
STRATEGY = st.dictionaries(
    st.sampled_from(
        [
            "enable",
            "cpuReclaimThresholdPercent",
            "memoryReclaimThresholdPercent",
            "midCPUThresholdPercent",
            "midMemoryThresholdPercent",
            "resourceDiffThreshold",
            "degradeTimeMinutes",
            "updateTimeThresholdSeconds",
            "metricReportIntervalSeconds",
            "metricAggregateDurationSeconds",
            "midUnallocatedPercent",
            "batchCPUThresholdPercent",
            "batchMemoryThresholdPercent",
            "memoryCalculatePolicy",
            "cpuCalculatePolicy",
        ]
    ),
    PERCENTS | st.sampled_from(["usage", "request", "maxUsageRequest"]),
    max_size=6,
)
ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            "node.koordinator.sh/colocation-strategy",
            "node.koordinator.sh/reservation",
            "node.koordinator.sh/cpu-normalization-ratio",
            "node.koordinator.sh/resource-amplification-ratio",
            "node.koordinator.sh/raw-allocatable",
            "node.koordinator.sh/thirdPartyAllocations",
            "node.koordinator.sh/system-qos-resource",
            "node.koordinator.sh/cpu-reclaim-ratio",
        ]
    ),
    st.sampled_from(
        [
            "",
            "{",
            "null",
            "[]",
            "-1",
            "NaN",
            "1e400",
            "Infinity",
            "0",
            "1.5",
            '{"cpu":-1}',
            '{"cpu":1e300}',
            '{"cpu":"-5"}',
            '{"resources":{"cpu":"-100","memory":"1e30"}}',
            '{"cpu":NaN}',
            "[" * 100_000,
            '{"reservedCPUs":"0-99999999"}',
            '{"reservedCPUs":"a-"}',
            '{"cpuset":"0-99999999"}',
            '{"enable":true,"cpuReclaimThresholdPercent":-500}',
            '{"enable":"x"}',
            "x" * 1_000_000,
            '[{"name":"a","priority":"koord-batch","resources":{"cpu":"-1e30"}}]',
            '{"allocations":[null]}',
        ]
    ),
    max_size=4,
)


class Writes:
    """Takes patches down."""

    def __init__(self) -> None:
        self.patches: list[Any] = []

    async def patch(self, type_: Any, namespace: str, name: str, patch: Any, **_: Any) -> None:
        self.patches.append((type_.__name__, name, patch))

    async def get(self, type_: Any, namespace: str, name: str) -> Any:
        return None

    async def patch_raw(self, resource: Any, namespace: str, name: str, patch: Any, *_: Any) -> None:
        self.patches.append((resource.kind, name, msgspec.json.decode(msgspec.json.encode(patch))))

    async def delete(self, type_: Any, namespace: str, name: str) -> None:
        self.patches.append((type_.__name__, name, None))

    async def create_raw(self, resource: Any, namespace: str, document: Any) -> None:
        self.patches.append(
            (resource.kind, document["metadata"]["name"], msgspec.json.decode(msgspec.json.encode(document)))
        )


class Controllers:
    """The three controllers on one cluster."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        self.clock = FakeClock(NOW)
        self.cluster = Cluster(self.clock)
        self.writes = Writes()
        handle = Handle(
            self.cluster,
            feature_gates(installed()),
            connected=self.writes,  # type: ignore[arg-type]
            clock=self.clock,
        )
        handle.report = lambda *_: None  # type: ignore[method-assign]
        self.resources = NodeResourceController(NodeResourceArgs(plugins=("*",)), handle)
        self.slos = NodeSLOController(NoArgs(), handle)
        self.metrics = NodeMetricController(NoArgs(), handle)
        for controller in (self.resources, self.slos, self.metrics):
            controller.setup()
        self.configure(data or {"colocation-config": '{"enable":true}'})

    def configure(self, data: dict[str, str]) -> None:
        meta = ObjectMeta(namespace="koordinator-system", name="slo-controller-config")
        self.cluster.store(ConfigMap).put(ConfigMap(metadata=meta, data=data))

    def put(self, type_: Any, document: dict[str, Any]) -> bool:
        """Let an object be seen; return whether it can be decoded: others stay as they were known."""
        try:
            decoded = decode(type_, document)
        except DecodeError:
            return False
        self.cluster.store(type_).put(decoded)
        return True

    def node(self, name: str = "n", **changes: Any) -> bool:
        amounts = {"cpu": "10", "memory": "10Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts, **changes.pop("status", {})}
        return self.put(Node, {"metadata": {"name": name, **changes}, "status": status})

    def metric(self, status: dict[str, Any], at: datetime = NOW, name: str = "n") -> bool:
        document = {"metadata": {"name": name}, "status": {"updateTime": format_time(at), **status}}
        return self.put(NodeMetric, document)

    def forget(self) -> None:
        """Forget all objects but the configuration, so that the next example starts anew."""
        for type_ in (Node, Pod, NodeMetric, NodeSLO, NodeResourceTopology, Device):
            for key in list(self.cluster.store(type_).keys()):
                self.cluster.store(type_).discard(key)
        self.resources.written.clear()
        self.configure({"colocation-config": '{"enable":true}'})

    async def reconcile(self, name: str = "n") -> list[Any]:
        """Reconcile a node; raises what the controllers raise."""
        self.writes.patches.clear()
        for controller in (self.resources, self.slos, self.metrics):
            await controller.reconcile(name)
        return list(self.writes.patches)


@cache
def shared() -> Controllers:
    """Return controllers that all examples share, because creating them takes longer than an example."""
    return Controllers()


def fresh(data: dict[str, str] | None = None) -> Controllers:
    world = shared()
    world.forget()
    if data is not None:
        world.configure(data)
    return world


def check(patches: list[Any]) -> None:
    """Every amount that is written is one that kube-apiserver takes: a number, and not negative."""
    for kind, name, patch in patches:
        if kind != "Node":
            continue
        for section in ("allocatable", "capacity"):
            for resource, text in ((patch.get("status") or {}).get(section) or {}).items():
                if text is not None:
                    value = quantity.value(text)
                    assert 0 <= value < 2**63, (name, resource, text)
        for key, text in ((patch.get("metadata") or {}).get("annotations") or {}).items():
            assert text is None or isinstance(text, str), key
            if key.endswith("ratio") and text is not None:
                numbers = [json.loads(text)] if not text.startswith("{") else json.loads(text).values()
                assert all(math.isfinite(number) for number in numbers), (key, text)


@EXAMPLES
@given(status=STATUS, at=TIMES, pods=st.integers(0, 2))
async def test_no_report_makes_negative_or_endless_resources(
    status: dict[str, Any], at: datetime, pods: int
) -> None:
    world = fresh()
    world.node()
    for number in range(pods):
        spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
        world.put(
            Pod, {"metadata": {"name": f"p{number}", "namespace": "d", "uid": f"{number}"}, "spec": spec}
        )
    assume(world.metric(status, at))
    check(await world.reconcile())


@EXAMPLES
@given(amounts=st.tuples(AMOUNTS, AMOUNTS), annotations=ANNOTATIONS, status=STATUS)
async def test_no_node_makes_negative_or_endless_resources(
    amounts: tuple[dict[str, Any], dict[str, Any]], annotations: dict[str, str], status: dict[str, Any]
) -> None:
    world = fresh()
    assume(world.node(annotations=annotations, status={"capacity": amounts[0], "allocatable": amounts[1]}))
    used = {"resources": {"cpu": "1", "memory": "1Gi"}}
    world.metric({"nodeMetric": {"nodeUsage": used, "systemUsage": used}})
    world.metric(status)
    check(await world.reconcile())


@EXAMPLES
@given(
    cluster=STRATEGY,
    of_node=STRATEGY,
    selector=st.sampled_from(
        [
            None,
            {},
            [],
            "x",
            {"matchLabels": None},
            {"matchLabels": {"a": 3}},
            {"matchLabels": {"": "b"}},
            {"matchExpressions": [{"key": "a", "operator": "Nope"}]},
            {"matchExpressions": [None]},
        ]
    ),
)
async def test_no_strategy_makes_negative_or_endless_resources(
    cluster: dict[str, Any], of_node: dict[str, Any], selector: Any
) -> None:
    config = {**cluster, "enable": True, "nodeConfigs": [{"nodeSelector": selector, **of_node}]}
    world = fresh({"colocation-config": json.dumps(config)})
    world.node(labels={"a": "b"})
    used = {"resources": {"cpu": "1", "memory": "1Gi"}}
    world.metric({"nodeMetric": {"nodeUsage": used, "systemUsage": used}})
    check(await world.reconcile())


SECTIONS = [
    "colocation-config",
    "resource-threshold-config",
    "resource-qos-config",
    "cpu-burst-config",
    "system-config",
    "host-application-config",
    "cpu-normalization-config",
    "resource-amplification-config",
]
TEXTS = {
    "nothing": "",
    "null": "null",
    "a list": "[]",
    "a number": "3",
    "half": '{"clusterStrategy":',
    "nested deeply": "[" * 100_000,
    "objects nested deeply": '{"clusterStrategy":' * 50_000,
    "nested deeply in an extension": '{"extensions":' + '{"a":' * 20_000 + "1" + "}" * 20_001,
    "megabytes": json.dumps({"clusterStrategy": {"x": "y" * 3_000_000}}),
    "many nodes": json.dumps(
        {"nodeStrategies": [{"nodeSelector": {"matchLabels": {"a": str(n)}}} for n in range(5000)]}
    ),
    "wrong types": '{"clusterStrategy":3,"nodeStrategies":{},"enable":"yes","applications":7}',
    "null nodes": '{"nodeStrategies":[null],"nodeConfigs":[null],"nodeConfigs":[{}],"applications":[null]}',
    "NaN": '{"clusterStrategy":{"enable":true,"cpuSuppressThresholdPercent":NaN}}',
    "surrogates": '{"clusterStrategy":{"a":"\\ud800"}}',
    "selectors": '{"nodeStrategies":[{"nodeSelector":{"matchExpressions":[{"key":"((","operator":"In"}]}}]}',
    "huge numbers": '{"clusterStrategy":{"cpuSuppressThresholdPercent":1e400,"cpuBurstPercent":1e30}}',
}


@pytest.mark.parametrize("what", TEXTS)
async def test_no_configuration_stops_the_controllers(what: str) -> None:
    world = fresh()
    world.node(labels={"a": "b"})
    used = {"resources": {"cpu": "1", "memory": "1Gi"}}
    world.metric({"nodeMetric": {"nodeUsage": used, "systemUsage": used}})
    for section in SECTIONS:
        world.configure({"colocation-config": '{"enable":true}', section: TEXTS[what]})
        check(await world.reconcile())
    world.configure({"colocation-config": '{"enable":true}'})
    patches = await world.reconcile()
    check(patches)
    assert {kind for kind, _, _ in patches} >= {"Node", "NodeSLO", "NodeMetric"}


async def test_one_node_that_fails_does_not_stop_the_round(caplog: pytest.LogCaptureFixture) -> None:
    world = fresh()
    names = ["a", "bad", "z", "x" * 253, "1.2.3", "UPPER"]
    used = {"resources": {"cpu": "1", "memory": "1Gi"}}
    for name in names:
        world.node(name)
        world.metric({"nodeMetric": {"nodeUsage": used, "systemUsage": used}}, name=name)
    whole = world.resources.inputs

    def inputs(name: str) -> Any:
        if name == "bad":
            raise ArithmeticError("no such number")
        return whole(name)

    world.resources.inputs = inputs  # type: ignore[method-assign]
    world.writes.patches.clear()
    queue = world.resources.queue
    with caplog.at_level(logging.ERROR):
        while (key := queue.pop()) is not None:
            await reconcile_once(queue, key, world.resources.reconcile)
            queue.done(key)
    written = {name for kind, name, _ in world.writes.patches if kind == "Node"}
    assert written == set(names) - {"bad"}
    assert "reconcile of bad failed" in caplog.text


async def test_ten_thousand_pods_in_a_report_are_only_those_of_the_node() -> None:
    world = fresh()
    world.node()
    used = {"resources": {"cpu": "1", "memory": "1Gi"}}
    pod = {"namespace": "d", "podUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}}
    pods = [{**pod, "name": f"gone{number}"} for number in range(10_000)]
    world.metric({"nodeMetric": {"nodeUsage": used, "systemUsage": used}, "podsMetric": pods})
    patches = await world.reconcile()
    check(patches)
    [written] = [
        patch["status"]["allocatable"] for kind, _, patch in patches if kind == "Node" and "status" in patch
    ]
    assert quantity.value(written["kubernetes.io/batch-cpu"]) == 0
