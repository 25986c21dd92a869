"""Whether LowNodeLoad would move a pod again from a node."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.engine.evictor import EvictorProxy, PluginEvictor
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.descheduling.explain.decisions import Decisions
from koordpy.descheduling.interface import Handle, NoPlugins
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.descheduling.lownodeload.plugin import LowNodeLoad

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THRESHOLDS = {"lowThresholds": {"cpu": 40}, "highThresholds": {"cpu": 70}}


class Stage:
    """Nodes of ten cores, with what their pods use."""

    def __init__(self, **args: Any) -> None:
        self.cluster = Cluster(FakeClock(NOW))
        evictor = EvictorProxy(EvictionLimiter(), Decisions(), dry_run=True)
        handle = Handle(
            cluster=self.cluster,
            client=None,
            events=None,
            clock=self.cluster.clock,
            evictor=PluginEvictor(evictor, "LowNodeLoad"),
            dry_run=True,
            report=lambda _: None,
            gates=FeatureGates({}),
            plugins=NoPlugins(),
            run_while_leading=lambda name, task: None,
        )
        self.plugin = LowNodeLoad.make(handle, {**THRESHOLDS, **args})
        assert isinstance(self.plugin, LowNodeLoad)

    def node(
        self, name: str, pods: Mapping[str, str], *, age: int = 0, system: str = "0", **labels: str
    ) -> Node:
        made = decode(
            Node,
            {
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": {"cpu": "10", "memory": "10Gi", "pods": "20"}},
            },
        )
        self.cluster.store(Node).apply(made)
        used = [
            {"namespace": "d", "name": each, "podUsage": {"resources": {"cpu": cpu}}}
            for each, cpu in pods.items()
        ]
        status = {
            "updateTime": format_time(NOW - timedelta(seconds=age)),
            "nodeMetric": {"systemUsage": {"resources": {"cpu": system}}},
            "podsMetric": used,
        }
        self.cluster.store(NodeMetric).apply(
            decode(NodeMetric, {"metadata": {"name": name}, "status": status})
        )
        for each in pods:
            self.pod(each, name)
        return made

    def pod(self, name: str, node_name: str, *, requests: str = "1", prod: bool = False) -> Pod:
        resources = {"requests": {"cpu": requests}}
        made = decode(
            Pod,
            {
                "metadata": {
                    "namespace": "d",
                    "name": name,
                    "uid": f"uid-{name}",
                    "labels": {"koordinator.sh/priority-class": "koord-prod" if prod else "koord-batch"},
                },
                "spec": {"nodeName": node_name, "containers": [{"name": "c", "resources": resources}]},
            },
        )
        self.cluster.store(Pod).apply(made)
        return made

    def on(self, node_name: str) -> list[Pod]:
        return [pod for pod in self.cluster.store(Pod) if pod.spec.node_name == node_name]

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod] | None = None) -> str | None:
        assert isinstance(self.plugin, LowNodeLoad)
        return self.plugin.objection(pod, node, self.on(node.metadata.name) if pods is None else pods)


@pytest.mark.parametrize(("cpu", "objects"), [("2", False), ("2001m", True)])
def test_a_node_is_objected_to_if_the_pod_would_put_it_over_its_threshold(cpu: str, objects: bool) -> None:
    stage = Stage()
    stage.node("hot", {"p": cpu})
    target = stage.node("cool", {"q": "4"}, system="1")
    found = stage.objection(stage.pod("p", "hot"), target)
    assert (found is not None) is objects
    if found is not None:
        assert found == "node cpu usage(70.01%)>threshold(70.00%) with this pod"


def test_a_pod_that_is_not_measured_counts_with_its_requests() -> None:
    stage = Stage()
    stage.node("hot", {})
    target = stage.node("cool", {"q": "5"})
    assert stage.objection(stage.pod("p", "hot", requests="2"), target) is None
    assert stage.objection(stage.pod("p", "hot", requests="3"), target) is not None


def test_victims_that_are_expected_count_with_their_usage_and_those_that_are_gone_not_at_all() -> None:
    stage = Stage()
    stage.node("hot", {"a": "2", "b": "2", "c": "2"})
    target = stage.node("cool", {"q": "1", "r": "2"})
    a, b, c = (pod for pod in stage.on("hot"))
    here = stage.on("cool")
    assert stage.objection(a, target, here) is None
    assert stage.objection(b, target, [*here, a]) is None
    assert stage.objection(c, target, [*here, a, b]) is not None
    assert stage.objection(c, target, [here[0], a, b]) is None  # r has left


def test_a_node_without_recent_metric_is_objected_to() -> None:
    stage = Stage()
    stage.node("hot", {"p": "1"})
    found = stage.objection(stage.pod("p", "hot"), stage.node("dark", {}, age=180))
    assert found == "its usage is not known: it has no recent NodeMetric"


def test_prod_pods_have_thresholds_of_their_own() -> None:
    stage = Stage(prodLowThresholds={"cpu": 10}, prodHighThresholds={"cpu": 20})
    stage.node("hot", {"p": "2"})
    target = stage.node("cool", {"q": "1"})
    batch, prod = stage.pod("p", "hot"), stage.pod("p", "hot", prod=True)
    assert stage.objection(prod, target, [stage.pod("q", "cool")]) is None
    beside = [stage.pod("q", "cool", prod=True)]
    assert stage.objection(prod, target, beside) == "prod cpu usage(30.00%)>threshold(20.00%) with this pod"
    assert stage.objection(batch, target, beside) is None


def test_the_thresholds_of_all_pools_of_a_node_apply() -> None:
    pools = [
        {
            "name": "gpu",
            "nodeSelector": {"matchLabels": {"gpu": "y"}},
            "highThresholds": {"cpu": 50},
            "lowThresholds": {"cpu": 10},
        }
    ]
    stage = Stage(nodePools=pools)
    stage.node("hot", {"p": "2"})
    mover = stage.pod("p", "hot")
    assert stage.objection(mover, stage.node("plain", {"q": "4"})) is None
    assert stage.objection(mover, stage.node("gpu", {"r": "4"}, gpu="y")) is not None


async def test_deviation_thresholds_are_relative_to_the_mean_of_the_round() -> None:
    stage = Stage(
        useDeviationThresholds=True, lowThresholds={"cpu": 10}, highThresholds={"cpu": 10}, paused=False
    )
    hot = stage.node("hot", {"p": "6"})
    middle, cool = stage.node("middle", {"q": "3"}), stage.node("cool", {"r": "0"})
    assert isinstance(stage.plugin, LowNodeLoad)
    await stage.plugin.balance([cool, hot, middle])  # the mean is 30 %, the threshold 40 %
    small = stage.pod("s", "hot", requests="1")
    assert stage.objection(small, middle) is None
    small = stage.pod("s", "hot", requests="1001m")
    assert stage.objection(small, middle) is not None
    assert stage.objection(small, cool) is None


def test_a_node_has_changed_when_others_use_clearly_more_and_make_it_hot_alone() -> None:
    stage = Stage()
    node = stage.node("n", {"p": "2", "q": "3"})
    pod = stage.pod("p", "n")
    before = stage.plugin.node_state(pod, node)
    assert before["usage"] == {"cpu": 30.0, "memory": 0.0}
    for others, own, changed in (
        ("4", "9", False),
        ("7", "2", False),
        ("7001m", "0", True),
        ("1", "9", False),
    ):
        node = stage.node("n", {"p": own, "q": others})
        found = stage.plugin.has_changed(before, pod, node)
        assert (found is not None) is changed
    for earlier, changed in ((60.0, True), (60.02, False)):
        found = stage.plugin.has_changed(
            {**before, "usage": {"cpu": earlier}}, pod, stage.node("n", {"q": "7001m"})
        )
        assert (found is not None) is changed
    node = stage.node("n", {"p": "2", "q": "3"}, broken="y")
    assert stage.plugin.has_changed(before, pod, node) == "the node's labels changed"


def test_other_prod_pods_have_a_threshold_of_their_own() -> None:
    stage = Stage(prodHighThresholds={"cpu": 50}, prodLowThresholds={"cpu": 20})
    node = stage.node("n", {"p": "2", "q": "6"})
    found = []
    for prod in (False, True):
        pod = stage.pod("p", "n", prod=prod)
        stage.pod("q", "n", prod=True)
        found.append(
            stage.plugin.has_changed(
                {**stage.plugin.node_state(pod, node), "usage": {"cpu": 30.0}}, pod, node
            )
        )
    assert [each is not None for each in found] == [False, True]


async def test_between_rounds_a_node_is_measured_anew() -> None:
    stage = Stage()
    stage.node("hot", {"p": "2"})
    target = stage.node("cool", {"q": "1"})
    pod = stage.pod("p", "hot")
    assert isinstance(stage.plugin, LowNodeLoad)
    await stage.plugin.balance([target])
    assert stage.objection(pod, target) is None
    assert stage.objection(pod, stage.node("cool", {"q": "6"})) is not None


def test_pods_that_arrived_together_are_no_change_of_each_others_node() -> None:
    stage = Stage()
    node = stage.node("n", {"q": "3"})
    first, _ = stage.pod("v1", "n", requests="1"), stage.pod("v2", "n", requests="1")
    before = stage.plugin.node_state(first, node)
    node = stage.node("n", {"q": "3", "v1": "1", "v2": "1"})
    assert stage.plugin.has_changed(before, first, node) is None


@pytest.mark.parametrize("before", [{}, {"usage": None}, {"usage": []}, {"usage": {"cpu": "much"}}])
def test_what_is_not_known_of_the_past_is_no_change(before: dict[str, Any]) -> None:
    stage = Stage()
    node = stage.node("n", {"q": "9"})
    assert stage.plugin.has_changed(before, stage.pod("p", "n"), node) is None
