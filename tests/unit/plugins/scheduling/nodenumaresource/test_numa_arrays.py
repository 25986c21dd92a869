"""NUMA policies over arrays give what evaluating nodes one by one gives: statuses, affinities, and scores."""

import json
from math import comb
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api import extension
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.quantity import Quantity
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import each
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE
from koordpy_plugins.scheduling.nodenumaresource.all_nodes import arrays
from koordpy_plugins.scheduling.nodenumaresource.attempt import pod_state
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource
from koordpy_plugins.scheduling.nodenumaresource.scorer import Scorer
from koordpy_plugins.scheduling.nodenumaresource.state.pod_allocation import PodAllocation

from ....scheduling.worlds import node, world
from .numa_world import bound_pod, profile, spec

ZONE = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["8", "8", "8", "8", "7", "6500m", "0"]),
        "memory": st.sampled_from(["16Gi", "16Gi", "16Gi", "3Gi", ""]),
        "held_cpus": st.lists(st.integers(0, 7), max_size=6),
        "held_memory": st.sampled_from([0, 0, 1, 2, 15, 16]),
    }
)
NODES = st.fixed_dictionaries(
    {
        "bind": st.sampled_from(["", "", "FullPCPUsOnly", "SpreadByPCPUs"]),
        "numa": st.sampled_from(["", "BestEffort", "Restricted", "SingleNUMANode", "SingleNUMANode"]),
        "ratio": st.sampled_from(["", "", '{"cpu":1.5}', '{"cpu":1.3,"memory":1.2}']),
        "topology": st.sampled_from(["regular"] * 6 + ["irregular", "no", "empty"]),
        "zones": st.lists(ZONE, min_size=1, max_size=4) | st.lists(ZONE, min_size=5, max_size=8),
        "ids": st.sampled_from([tuple(range(8))] * 3 + [(1, 2, 3, 5, 6, 7, 8, 9)]),
        "across": st.sets(st.integers(0, 63), max_size=4),
    }
)


def many_numa_nodes(count: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Regular machines with strict policies and equally many NUMA nodes, so that arrays hold several."""
    some = {"cpu": st.sampled_from(["8", "8", "0"]), "memory": st.sampled_from(["16Gi", "16Gi", "3Gi", ""])}
    held = {
        "held_cpus": st.sampled_from([[], [0], [0, 1], [0, 1, 2, 3], list(range(7))]),
        "held_memory": st.sampled_from([0, 1, 8, 15]),
    }
    zone = st.fixed_dictionaries({**some, **held}) | st.fixed_dictionaries(
        {**some, **held, "memory": st.just("")}
    )
    of_node = {
        "bind": st.sampled_from(["", "FullPCPUsOnly"]),
        "numa": st.sampled_from(["Restricted", "Restricted", "SingleNUMANode"]),
        "ratio": st.sampled_from(["", '{"cpu":1.5}']),
        "topology": st.just("regular"),
        "zones": st.lists(zone, min_size=count, max_size=count),
        "ids": st.just(tuple(range(8))),
        "across": st.just(set()),
    }
    return st.lists(st.fixed_dictionaries(of_node), min_size=2, max_size=5)


PODS = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["0", "500m", "1", "2", "4", "6", "8", "10", "14", "24"]),
        "memory": st.sampled_from(["1Gi", "3Gi", "15Gi", "20Gi", "7"]),
        "qos": st.sampled_from(["LSR", "LSR", "LS"]),
        "required": st.sampled_from(["", "", "FullPCPUs", "SpreadByPCPUs"]),
        "exclusive": st.sampled_from(["", "", "PCPULevel", "NUMANodeLevel"]),
        "numa": st.sampled_from(["", "", "Restricted", "SingleNUMANode"]),
        "alone": st.sampled_from(["", "", "Required", "Preferred"]),
    }
)


def topology_of(name: str, shape: dict[str, Any]) -> NodeResourceTopology:
    """Every NUMA node has 8 CPUs in cores of two; on an irregular machine core 1 is on two of them."""
    ids = shape["ids"][: len(shape["zones"])]
    detail = [
        {"id": 8 * at + cpu, "core": 4 * at + cpu // 2, "socket": at // 2, "node": numa}
        for at, numa in enumerate(ids)
        for cpu in range(8)
    ]
    if shape["topology"] == "irregular":
        detail[0]["core"] = 1
    if shape["topology"] == "empty":
        detail = []
    zones = []
    for numa, zone in zip(ids, shape["zones"], strict=True):
        amounts = {key: zone[key] for key in ("cpu", "memory") if zone[key]}
        resources = [
            {"name": key, "allocatable": text, "capacity": text, "available": text}
            for key, text in amounts.items()
        ]
        zones.append({"name": f"node-{numa}", "type": "Node", "resources": resources})
    annotations = {extension.ANNOTATION_NODE_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    return decode(
        NodeResourceTopology, {"metadata": {"name": name, "annotations": annotations}, "zones": zones}
    )


def cluster_of(shapes: list[dict[str, Any]]) -> Cluster:
    made = []
    for at, shape in enumerate(shapes):
        labels = {
            extension.LABEL_NODE_CPU_BIND_POLICY: shape["bind"],
            extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: shape["numa"],
            extension.LABEL_GPU_MODEL: shape.get("model", ""),
        }
        annotations = {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: shape["ratio"]}
        made.append(
            node(
                f"n{at}",
                cpu="96",
                memory="128Gi",
                labels={key: text for key, text in labels.items() if text},
                annotations={key: text for key, text in annotations.items() if text},
            )
        )
    cluster = world(made)
    for at, shape in enumerate(shapes):
        if shape["topology"] != "no":
            cluster.store(NodeResourceTopology).apply(topology_of(f"n{at}", shape))
    return cluster


def hold(plugin: NodeNUMAResource, shapes: list[dict[str, Any]]) -> None:
    for at, shape in enumerate(shapes):
        name, taken = f"n{at}", frozenset[int]()
        if shape["topology"] == "no":
            continue
        for position, zone in enumerate(shape["zones"]):
            cpus = frozenset(8 * position + cpu for cpu in zone["held_cpus"])
            taken |= cpus
            numa = {}
            if zone["held_memory"]:
                amounts = {"cpu": Quantity.of(len(cpus)), "memory": Quantity.of(zone["held_memory"] << 30)}
                offered = {key: amount for key, amount in amounts.items() if zone[key]}
                numa = {shape["ids"][position]: offered}
            uid = f"{name}-{position}"
            plugin.ledger.reserve(name, PodAllocation(uid, "default", uid, cpus, "PCPULevel", numa))
        across = frozenset(cpu for cpu in shape["across"] if cpu < 8 * len(shape["zones"])) - taken
        uid = f"{name}-across"
        plugin.ledger.reserve(name, PodAllocation(uid, "default", uid, across, "", {}))


def prepared(
    shapes: list[dict[str, Any]], asks: dict[str, Any], kind: str
) -> tuple[Framework, NodeNUMAResource, Any, CycleState | None]:
    cluster = cluster_of(shapes)
    made, plugin = profile(cluster)
    hold(plugin, shapes)
    weights = {"cpu": 2, "memory": 1}
    plugin._admission._scorer = plugin._arrays._numa._hint_scorer = Scorer(kind == "MostAllocated", weights)
    annotations = spec(requiredCPUBindPolicy=asks["required"], preferredCPUExclusivePolicy=asks["exclusive"])
    numa = {"numaTopologyPolicy": asks["numa"], "singleNUMANodeExclusive": asks["alone"]}
    annotations[extension.ANNOTATION_NUMA_TOPOLOGY_SPEC] = json.dumps(numa)
    pod = bound_pod("p", asks["cpu"], qos=asks["qos"], annotations=annotations)
    pod.spec.containers[0].resources.requests["memory"] = asks["memory"]
    state = made.new_state()
    passed = made.run_pre_filter(state, pod, cluster.nodes.all()).status.is_success
    return made, plugin, pod, state if passed else None


def fresh(made: Framework, pod: Any) -> CycleState:
    state = made.new_state()
    made.run_pre_filter(state, pod, made.handle.nodes.all())
    return state


def alone(plugin: NodeNUMAResource, state: CycleState, pod: Any, made: Framework) -> list[Status]:
    found, _ = pod_state.read(state)
    nodes = made.handle.nodes.all()
    with patch.object(plugin._arrays, "hints", return_value=None):
        return [plugin._filter.filter(state, plugin._case(found, pod, info), info) for info in each(nodes)]


@settings(max_examples=150)
@given(st.lists(NODES, min_size=1, max_size=5), PODS, st.sampled_from(["MostAllocated", "LeastAllocated"]))
def test_filter_affinities_and_score_agree_with_single_nodes(
    shapes: list[dict[str, Any]], asks: dict[str, Any], kind: str
) -> None:
    agree(shapes, asks, kind)


@settings(max_examples=60)
@given(
    st.sampled_from([4, 4, 5]).flatmap(many_numa_nodes),
    PODS,
    st.sampled_from(["MostAllocated", "LeastAllocated"]),
)
def test_nodes_with_many_numa_nodes_agree_with_single_nodes(
    shapes: list[dict[str, Any]], asks: dict[str, Any], kind: str
) -> None:
    agree(shapes, asks, kind)


@pytest.mark.parametrize(
    "asks",
    [
        {"cpu": "4", "memory": "20Gi", "qos": "LSR"},  # only the first two NUMA nodes have that, unevenly
        {"cpu": "1", "memory": "20Gi", "qos": "LS"},  # with CPUs of its own only where the node says so
    ],
)
def test_each_of_many_numa_nodes_gives_by_what_is_left_on_its_own_node(asks: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"cpu": "8", "memory": "16Gi", "held_cpus": []}
    full, half, empty = ({**whole, "held_memory": held} for held in (0, 8, 16))
    plain = {"numa": "Restricted", "ratio": "", "topology": "regular", "ids": tuple(range(8))}
    shapes = [
        {**plain, "bind": bind, "zones": zones, "across": set[int]()}
        for bind in ("FullPCPUsOnly", "")
        for zones in ([full] * 4, [full, half, empty, empty], [half, full, empty, empty])
    ]
    free = dict.fromkeys(("required", "exclusive", "numa", "alone"), "")
    agree(shapes, {**free, **asks}, "LeastAllocated")


def agree(shapes: list[dict[str, Any]], asks: dict[str, Any], kind: str) -> None:
    made, plugin, pod, state = prepared([*shapes, *shapes[:2]], asks, kind)
    if state is None:
        return
    everything, other = made.handle.nodes.all(), fresh(made, pod)
    verdict = plugin.filter_nodes(state, pod, everything)
    expected = alone(plugin, other, pod, made)
    assert [verdict.status(at) for at in range(len(everything))] == expected
    assert state.read(AFFINITY_STORE) == other.read(AFFINITY_STORE)
    found, _ = pod_state.read(state)
    marks = [
        each_state.admitted_at.hold(everything).tolist() for each_state in (found, pod_state.read(other)[0])
    ]
    assert marks[0] == marks[1]
    again = plugin.filter_nodes(state, pod, everything)
    assert [again.status(at) for at in range(len(everything))] == expected
    passed = everything.subset(np.array([status.is_success for status in expected], np.bool_))
    for each_state in (state, fresh(made, pod)):
        scores = plugin.score_nodes(each_state, pod, passed)
        case_of = [(plugin._case(found, pod, info), info) for info in each(passed)]
        assert scores.tolist() == [plugin._score.score(each_state, case, info) for case, info in case_of]


@settings(max_examples=150)
@given(st.lists(NODES, min_size=1, max_size=3), PODS)
def test_hints_of_one_node_are_those_of_trying_each_set(
    shapes: list[dict[str, Any]], asks: dict[str, Any]
) -> None:
    made, plugin, pod, state = prepared(shapes, asks, "LeastAllocated")
    if state is None:
        return
    found, _ = pod_state.read(state)
    for info in each(made.handle.nodes.all()):
        with patch.object(arrays, "_FEW_ZONES", 0):
            known = plugin._arrays.hints(found, info.alone().nodes)
        if known is not None:
            assert (known, Status()) == plugin._admission.pod_topology_hints(state, pod, info)


@pytest.mark.parametrize("numa", ["BestEffort", "Restricted"])
def test_hints_of_a_regular_node_with_eight_numa_nodes_are_found_by_arrays(numa: str) -> None:
    zone = {"cpu": "8", "memory": "16Gi", "held_cpus": [0], "held_memory": 2}
    shape = {
        "bind": "", "numa": numa, "ratio": "", "topology": "regular", "zones": [zone] * 8,
        "ids": tuple(range(8)), "across": set(),
    }  # fmt: skip
    asks = {
        "cpu": "24", "memory": "1Gi", "qos": "LSR", "required": "FullPCPUs", "exclusive": "", "numa": "",
        "alone": "",
    }  # fmt: skip
    made, plugin, pod, state = prepared([shape], asks, "LeastAllocated")
    assert state is not None
    (info,) = each(made.handle.nodes.all())
    with patch.object(plugin._admission, "pod_topology_hints", side_effect=AssertionError):
        found, status = plugin.pod_topology_hints(state, pod, info)
    assert status.is_success
    smallest = [
        hint for hint in found["cpu"] or () if hint.affinity is not None and hint.affinity.bit_count() == 4
    ]
    assert len(smallest) == comb(8, 4)
    assert all(hint.preferred for hint in smallest)
    assert all((hint.affinity or 0).bit_count() >= 4 for hint in found["cpu"] or ())


def test_nodes_that_are_all_evaluated_by_themselves_are_scored() -> None:
    zone = {"cpu": "8", "memory": "16Gi", "held_cpus": [0], "held_memory": 2}
    shape = {
        "bind": "", "numa": "SingleNUMANode", "ratio": "", "topology": "empty", "zones": [zone] * 2,
        "ids": (0, 1, 2, 3), "across": set(),
    }  # fmt: skip
    asks = {
        "cpu": "4", "memory": "1Gi", "qos": "LSR", "required": "FullPCPUs", "exclusive": "", "numa": "",
        "alone": "",
    }  # fmt: skip
    made, plugin, pod, state = prepared([shape] * 3, asks, "LeastAllocated")
    assert state is not None
    assert plugin.score_nodes(state, pod, made.handle.nodes.all()).tolist() == [0, 0, 0]


@pytest.mark.parametrize("numa", ["SingleNUMANode", "Restricted"])
@pytest.mark.parametrize("bind", ["", "FullPCPUsOnly", "SpreadByPCPUs"])
@pytest.mark.parametrize("ratio", ["", '{"cpu":1.5}'])
def test_no_regular_node_is_evaluated_by_itself(
    numa: str, bind: str, ratio: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = {"cpu": "8", "memory": "16Gi", "held_cpus": [0], "held_memory": 2}
    shape = {
        "bind": bind, "numa": numa, "ratio": ratio, "topology": "regular", "zones": [zone] * 2,
        "ids": (0, 1, 2, 3), "across": set(),
    }  # fmt: skip
    asks = {
        "cpu": "4", "memory": "1Gi", "qos": "LSR", "required": "", "exclusive": "", "numa": "", "alone": ""
    }  # fmt: skip
    made, plugin, pod, state = prepared([shape] * 3, asks, "LeastAllocated")
    assert state is not None
    monkeypatch.setattr(plugin, "_filter", None)
    monkeypatch.setattr(plugin, "_score", None)
    everything = made.handle.nodes.all()
    assert plugin.filter_nodes(state, pod, everything).status(0).is_success
    assert [hint.affinity for hint in (state.read(AFFINITY_STORE) or {}).values()] == [1, 1, 1]
    assert len(plugin.score_nodes(state, pod, everything)) == 3
