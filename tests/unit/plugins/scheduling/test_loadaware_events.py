"""Columns equal a rebuild after any sequence of events, and both forms of Filter and Score agree."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import each
from koordpy_plugins.scheduling.loadaware.plugin import LoadAwareScheduling

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODES = ("n0", "n1", "n2")
ARGS = {
    "usageThresholds": {"cpu": 50, "memory": 60},
    "prodUsageThresholds": {"cpu": 40},
    "aggregated": {
        "usageThresholds": {"cpu": 45},
        "usageAggregationType": "p95",
        "scoreAggregationType": "p50",
    },
    "estimatedSecondsAfterPodScheduled": 60,
    "scoreAccordingProdUsage": True,
}


def plugin_over(cluster: Cluster) -> LoadAwareScheduling:
    return LoadAwareScheduling.make(Handle(cluster), ARGS)


def pod_of(name: str, node_name: str, cpu: int, prod: bool, phase: str, seconds: int) -> Pod:
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": format_time(NOW - timedelta(seconds=seconds)),
    }
    return decode(
        Pod,
        {
            "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}"},
            "spec": {
                "nodeName": node_name,
                "priority": 9500 if prod else 5500,
                "containers": [
                    {
                        "name": "c",
                        "resources": {
                            "requests": {
                                "cpu": str(cpu),
                                "memory": "1Gi",
                                "kubernetes.io/batch-cpu": cpu * 1000,
                            }
                        },
                    }
                ],
            },
            "status": {"phase": phase, "conditions": [scheduled]},
        },
    )


def metric_of(name: str, cpu: int, aggregated: bool, measured: list[str], age: int) -> NodeMetric:
    usage = {"resources": {"cpu": str(cpu), "memory": f"{cpu}Gi"}}
    periods = [{"duration": "5m0s", "usage": {"p95": usage, "p50": usage}}] if aggregated else []
    return decode(
        NodeMetric,
        {
            "metadata": {"name": name},
            "status": {
                "updateTime": format_time(NOW - timedelta(seconds=age)),
                "nodeMetric": {"nodeUsage": usage, "aggregatedNodeUsages": periods},
                "podsMetric": [
                    {
                        "namespace": "d",
                        "name": pod,
                        "priority": "koord-prod" if index % 2 else "koord-batch",
                        "podUsage": {"resources": {"cpu": "1", "memory": "512Mi"}},
                    }
                    for index, pod in enumerate(measured)
                ],
            },
        },
    )


def node_of(name: str, cpu: int, thresholds: str) -> Node:
    annotations = {"scheduling.koordinator.sh/usage-thresholds": thresholds} if thresholds else {}
    return decode(
        Node,
        {
            "metadata": {"name": name, "uid": name, "annotations": annotations},
            "status": {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}},
        },
    )


names = st.sampled_from(NODES)
pod_names = st.sampled_from(["p0", "p1", "p2", "p3"])
THRESHOLDS = (
    "",
    "{",
    '{"usageThresholds":{"cpu":10}}',
    '{"prodUsageThresholds":{"memory":1}}',
    '{"aggregatedUsage":{"usageThresholds":{"memory":20},"usageAggregationType":"p50"}}',
)
pods = st.builds(
    pod_of,
    pod_names,
    st.sampled_from(["", *NODES]),
    st.integers(0, 8),
    st.booleans(),
    st.sampled_from(["Running", "Running", "Succeeded"]),
    st.integers(0, 300),
)
events = st.one_of(
    st.tuples(st.just("pod"), pods),
    st.tuples(st.just("delete-pod"), pod_names),
    st.tuples(
        st.just("metric"),
        st.builds(
            metric_of,
            names,
            st.integers(0, 16),
            st.booleans(),
            st.lists(pod_names, max_size=3),
            st.integers(0, 200),
        ),
    ),
    st.tuples(st.just("delete-metric"), names),
    st.tuples(st.just("node"), st.builds(node_of, names, st.integers(0, 16), st.sampled_from(THRESHOLDS))),
    st.tuples(st.just("delete-node"), names),
    st.tuples(st.just("reserve-and-undo"), st.tuples(pod_names, names)),
)


def play(cluster: Cluster, plugin: LoadAwareScheduling, event: tuple[str, Any]) -> None:
    kind, what = event
    match kind:
        case "pod":
            cluster.store(Pod).apply(what)
        case "delete-pod":
            cluster.store(Pod).discard(f"d/{what}")
        case "metric":
            cluster.store(NodeMetric).apply(what)
        case "delete-metric":
            cluster.store(NodeMetric).discard(what)
        case "node":
            cluster.store(Node).apply(what)
        case "delete-node":
            cluster.store(Node).discard(what)
        case _:
            name, node_name = what
            pending = pod_of(f"pending-{name}", "", 3, True, "Pending", 0)
            plugin.reserve(CycleState(), pending, node_name)
            plugin.unreserve(CycleState(), pending, node_name)


def played(sequence: list[tuple[str, Any]]) -> LoadAwareScheduling:
    cluster = Cluster(FakeClock(NOW))
    plugin = plugin_over(cluster)
    for event in sequence:
        play(cluster, plugin, event)
    return plugin


def rebuilt(cluster: Cluster) -> LoadAwareScheduling:
    fresh = Cluster(FakeClock(NOW))
    plugin = plugin_over(fresh)
    for type_ in (NodeMetric, Pod, Node):
        fresh.store(type_).replace(list(cluster.store(type_)))
    return plugin


@settings(max_examples=150, deadline=None)
@given(st.lists(events, max_size=25))
def test_columns_equal_a_rebuild_after_any_sequence_of_events(sequence: list[tuple[str, Any]]) -> None:
    plugin = played(sequence)
    assert plugin.columns.snapshot() == rebuilt(plugin.handle.cluster).columns.snapshot()


@settings(max_examples=150, deadline=None)
@given(st.lists(events, min_size=5, max_size=25), pods)
def test_both_forms_of_filter_and_score_agree(sequence: list[tuple[str, Any]], incoming: Pod) -> None:
    plugin = played(sequence)
    nodes = plugin.handle.nodes.all()
    verdict = plugin.filter_nodes(CycleState(), incoming, nodes)
    scores = plugin.score_nodes(CycleState(), incoming, nodes)
    for node in each(nodes):
        assert plugin.filter(CycleState(), incoming, node) == verdict.status(node.index)
        assert plugin.score(CycleState(), incoming, node) == scores[node.index]


def test_an_update_takes_no_other_pod_off_its_node() -> None:
    plugin = plugin_over(Cluster(FakeClock(NOW)))
    stays, comes = (pod_of(name, "n0", 2, True, "Running", 10) for name in ("p0", "p1"))
    plugin.cache.add_pod(stays)
    moved = pod_of("p1", "n1", 2, True, "Running", 10)
    changed: list[str] = []
    end = plugin.cache.on_change(changed.append)
    changed.clear()
    plugin.cache.update_pod(stays, moved)
    end()
    assert changed == ["n1"]
    load = plugin.cache.get("n0")
    assert load is not None
    assert set(load.pods) == {"uid-p0"}
    plugin.cache.add_pod(comes)
    plugin.cache.update_pod(comes, moved)
    assert set(load.pods) == {"uid-p0"}
