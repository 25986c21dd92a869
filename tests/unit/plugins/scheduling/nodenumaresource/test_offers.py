"""Nodes with reservations for the pod give over arrays what they give one by one."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.quantity import Quantity
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import each
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE
from koordpy.testing.reservations import GivenReservations
from koordpy_plugins.scheduling.nodenumaresource.attempt import pod_state
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource
from koordpy_plugins.scheduling.nodenumaresource.reservations.reusable import NodeReusable, reusable_on
from koordpy_plugins.scheduling.nodenumaresource.scorer import Scorer
from koordpy_plugins.scheduling.nodenumaresource.state.pod_allocation import PodAllocation

from .numa_world import bound_pod, profile, spec
from .test_numa_arrays import NODES, PODS, cluster_of, hold

HELD = st.fixed_dictionaries(
    {
        "cores": st.lists(st.integers(0, 15), max_size=4, unique=True)
        | st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True),
        "half": st.booleans(),
        "gigabytes": st.sampled_from([0, 0, 1, 4, 7, 7]),
        "names_all": st.booleans(),
        "only": st.sampled_from(["", "", "", "", "cpu", "memory"]),
        "elsewhere": st.sampled_from([False] * 5 + [True]),
        "used": st.sampled_from(["nothing", "nothing", "half", "all", "more"]),
        "policy": st.sampled_from(["", "", "Aligned", "Restricted", "Restricted", "Unknown"]),
        "matches": st.sampled_from([True, True, True, False]),
        "nominated": st.booleans(),
    }
)
SHAPES = st.tuples(NODES, st.lists(HELD, max_size=3))
ASKS = st.tuples(PODS, st.sampled_from(["", "", "", "", "required", "ignored"]))

# Most of these nodes serve most of these pods, by more than one of their offers.
ROOMY_ZONE = st.fixed_dictionaries(
    {
        "cpu": st.just("8"),
        "memory": st.just("16Gi"),
        "held_cpus": st.lists(st.integers(0, 7), max_size=4),
        "held_memory": st.sampled_from([0, 1, 5]),
    }
)
ROOMY_NODES = st.fixed_dictionaries(
    {
        "bind": st.sampled_from(["", "FullPCPUsOnly", "SpreadByPCPUs"]),
        "numa": st.sampled_from(["", "BestEffort", "Restricted", "SingleNUMANode", "SingleNUMANode"]),
        "ratio": st.sampled_from(["", "", '{"cpu":1.5}']),
        "topology": st.just("regular"),
        "zones": st.lists(ROOMY_ZONE, min_size=2, max_size=3) | st.lists(ROOMY_ZONE, min_size=4, max_size=4),
        "ids": st.just(tuple(range(8))),
        "across": st.just(set()),
    }
)
ROOMY_SHAPES = st.tuples(ROOMY_NODES, st.lists(HELD, min_size=1, max_size=2))
MODEST_ASKS = st.tuples(
    st.fixed_dictionaries(
        {
            "cpu": st.sampled_from(["1", "2", "2", "4", "4", "6", "10"]),
            "memory": st.sampled_from(["1Gi", "3Gi", "13Gi"]),
            "qos": st.just("LSR"),
            "required": st.sampled_from(["", "", "FullPCPUs", "SpreadByPCPUs"]),
            "exclusive": st.just(""),
            "numa": st.just(""),
            "alone": st.just(""),
        }
    ),
    st.sampled_from(["", "", "", "", "required", "ignored"]),
)
KINDS = st.sampled_from(["MostAllocated", "LeastAllocated"])


_NO_ZONE = 9
"""A NUMA node that no node has."""


class Nominated(GivenReservations):
    """The reservations that are nominated by the name of the node."""

    def __init__(self) -> None:
        self.by_node: dict[str, ReservationInfo] = {}

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        return self.by_node.get(node_name)


def reserved(name: str, node: str, policy: str) -> ReservationInfo:
    document = {
        "metadata": {"name": name, "uid": name},
        "spec": {"template": {}, "allocatePolicy": policy},
        "status": {"phase": "Available", "nodeName": node},
    }
    return ReservationInfo(decode(Reservation, document))


class World:
    """Nodes, what is allocated on them, and their reservations: (index of the node, reservation, how)."""

    def __init__(self, shapes: list[tuple[dict[str, Any], list[dict[str, Any]]]]) -> None:
        nodes = [shape for shape, _ in shapes]
        self.made, self.plugin = profile(cluster_of(nodes))
        hold(self.plugin, nodes)
        self.nominated = Nominated()
        self.made.handle.publish_reservations(self.nominated)
        self.reservations: list[tuple[int, ReservationInfo, dict[str, Any]]] = []
        for at, (shape, held) in enumerate(shapes):
            for number, how in enumerate(held):
                self.reserve(at, f"r{at}-{number}", shape, how)

    def reserve(self, at: int, name: str, shape: dict[str, Any], how: dict[str, Any]) -> None:
        """Reserve cores, and amounts of the NUMA nodes that they are on; let an owner use some of it."""
        node, zones = f"n{at}", len(shape["zones"])
        taken = self.plugin.ledger.node(node)
        held = frozenset() if taken is None else taken.allocated_cpus.keys()
        cores = sorted(core % (4 * zones) for core in how["cores"])
        cpus = frozenset({cpu for core in cores for cpu in (2 * core, 2 * core + 1)} - held)
        cpus = cpus if not how["half"] else frozenset(sorted(cpus)[1:])
        info = reserved(name, node, how["policy"])
        self.allocate(node, name, shape, cpus, how["gigabytes"], how)
        if how["used"] != "nothing":
            some = frozenset(sorted(cpus)[: len(cpus) // 2]) if how["used"] == "half" else cpus
            much = how["gigabytes"] // 2 if how["used"] == "half" else how["gigabytes"]
            uid = f"owner-{name}"
            self.allocate(node, uid, shape, some, much + (how["used"] == "more"))
            info.assign(AssignedPod("default", uid, uid, {}))
        self.reservations.append((at, info, how))

    def allocate(
        self,
        node: str,
        uid: str,
        shape: dict[str, Any],
        cpus: frozenset[int],
        gigabytes: int,
        how: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        amounts: dict[int, dict[str, Quantity]] = {}
        for position in sorted({cpu // 8 for cpu in cpus} or {0}):
            of_zone = {
                "cpu": Quantity.of(sum(cpu // 8 == position for cpu in cpus)),
                "memory": Quantity.of(gigabytes << 30),
            }
            zone = shape["zones"][position]
            amounts[shape["ids"][position]] = {
                key: each
                for key, each in of_zone.items()
                if (zone[key] or how.get("names_all")) and how.get("only") in (None, "", key)
            }
        if how.get("elsewhere"):
            amounts[_NO_ZONE] = {"memory": Quantity.of(1 << 30)}
        self.plugin.ledger.reserve(
            node, PodAllocation(uid, "default", uid, cpus, "", amounts if gigabytes else {})
        )

    def pairs(self, pod: Pod, *, match: bool) -> ReservationPairs:
        chosen = [(at, info) for at, info, how in self.reservations if how["matches"] == match]
        return ReservationPairs(
            self.made.handle.nodes.all(),
            np.array([at for at, _ in chosen], np.int64),
            [pod] * len(chosen),
            [info for _, info in chosen],
        )

    def attempt(self, pod: Pod) -> CycleState | None:
        state = self.made.new_state()
        self.plugin.pre_restore_reservation(state, pod)
        self.plugin.restore_reservations(
            state, pod, self.pairs(pod, match=True), self.pairs(pod, match=False)
        )
        outcome = self.made.run_pre_filter(state, pod, self.made.handle.nodes.all())
        return state if outcome.status.is_success else None


def pod_of(asks: dict[str, Any], kind: str) -> Pod:
    annotations = spec(requiredCPUBindPolicy=asks["required"], preferredCPUExclusivePolicy=asks["exclusive"])
    numa = {"numaTopologyPolicy": asks["numa"], "singleNUMANodeExclusive": asks["alone"]}
    annotations[extension.ANNOTATION_NUMA_TOPOLOGY_SPEC] = json.dumps(numa)
    if kind == "required":
        annotations[extension.ANNOTATION_RESERVATION_AFFINITY] = '{"reservationSelector":{"a":"b"}}'
    labels = {extension.LABEL_RESERVATION_IGNORED: "true"} if kind == "ignored" else {}
    pod = bound_pod("p", asks["cpu"], qos=asks["qos"], annotations=annotations, labels=labels)
    pod.spec.containers[0].resources.requests["memory"] = asks["memory"]
    return pod


def one_by_one(plugin: NodeNUMAResource, state: CycleState, pod: Pod, made: Framework) -> list[Status]:
    found, _ = pod_state.read(state)
    nodes = made.handle.nodes.all()
    with patch.object(plugin._arrays, "hints", return_value=None):
        return [plugin._filter.filter(state, plugin._case(found, pod, info), info) for info in each(nodes)]


@settings(max_examples=150)
@given(st.lists(SHAPES, min_size=1, max_size=5), ASKS, KINDS)
def test_filter_nomination_and_score_agree_with_single_nodes(
    shapes: list[tuple[dict[str, Any], list[dict[str, Any]]]], asks: tuple[dict[str, Any], str], kind: str
) -> None:
    check(shapes, asks, kind)


@settings(max_examples=250)
@given(st.lists(ROOMY_SHAPES, min_size=1, max_size=4), MODEST_ASKS, KINDS)
def test_they_agree_on_nodes_that_serve_the_pod(
    shapes: list[tuple[dict[str, Any], list[dict[str, Any]]]], asks: tuple[dict[str, Any], str], kind: str
) -> None:
    check(shapes, asks, kind)


def check(
    shapes: list[tuple[dict[str, Any], list[dict[str, Any]]]], asks: tuple[dict[str, Any], str], kind: str
) -> None:
    """Compare Filter, the nominations and Score."""
    world = World(shapes)
    made, plugin, pod = world.made, world.plugin, pod_of(*asks)
    weights = {"cpu": 2, "memory": 1}
    scorer = Scorer(kind == "MostAllocated", weights)
    plugin._admission._scorer = plugin._arrays._numa._hint_scorer = scorer
    state, other = world.attempt(pod), world.attempt(pod)
    if state is None or other is None:
        return
    everything = made.handle.nodes.all()
    verdict = plugin.filter_nodes(state, pod, everything)
    expected = one_by_one(plugin, other, pod, made)
    assert [verdict.status(at) for at in range(len(everything))] == expected
    assert state.read(AFFINITY_STORE) == other.read(AFFINITY_STORE)
    passed = everything.subset(np.array([status.is_success for status in expected], np.bool_))
    pairs = world.pairs(pod, match=True)
    pairs = pairs.pick(np.flatnonzero([expected[at].is_success for at in pairs.at.tolist()]))
    nominable = plugin.filter_nominate_reservations(state, pairs)
    assert [nominable.status(at) for at in range(len(pairs))] == [
        plugin.filter_nominate_reservation(other, pod, info, node.name) for _, info, node in pairs
    ]
    world.nominated.by_node = {
        info.node_name: info for _, info, how in world.reservations if how["nominated"] and how["matches"]
    }
    found, _ = pod_state.read(state)
    scores = plugin.score_nodes(state, pod, passed)
    case_of = [(plugin._case(found, pod, info), info) for info in each(passed)]
    assert scores.tolist() == [plugin._score.score(other, case, info) for case, info in case_of]


def regular(numa: str, bind: str = "") -> dict[str, Any]:
    """A node with two NUMA nodes, of each of which a CPU and 2 GiB are allocated."""
    zone = {"cpu": "8", "memory": "16Gi", "held_cpus": [0], "held_memory": 2}
    return {
        "bind": bind, "numa": numa, "ratio": "", "topology": "regular", "zones": [zone] * 2,
        "ids": (0, 1, 2, 3), "across": set(),
    }  # fmt: skip


def holds(cores: list[int], gigabytes: int, policy: str = "", used: str = "nothing") -> dict[str, Any]:
    """A reservation for the pod."""
    return {
        "cores": cores, "half": False, "gigabytes": gigabytes, "names_all": False, "only": "",
        "elsewhere": False, "used": used, "policy": policy, "matches": True, "nominated": True,
    }  # fmt: skip


def asking(cpu: str, memory: str) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": memory, "qos": "LSR"}
    return {**asked, "required": "", "exclusive": "", "numa": "", "alone": ""}


def wanting(cpu: str, memory: str) -> Pod:
    return pod_of(asking(cpu, memory), "")


def test_of_a_restricted_reservation_a_pod_gets_no_more_cpus_than_remain() -> None:
    """Though more are free: it requires a reservation, and one of the two CPUs is used."""
    shape = regular("", "FullPCPUsOnly"), [holds([2], 0, "Restricted", used="half")]
    check([shape], (asking("2", "1Gi"), "required"), "LeastAllocated")


@pytest.mark.parametrize(("cpu", "memory"), [("2", "1Gi"), ("4", "1Gi"), ("2", "5Gi")])
@pytest.mark.parametrize("only", ["", "cpu", "memory"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_a_restricted_reservation_does_not_name_is_not_limited(
    cpu: str, memory: str, only: str, elsewhere: bool
) -> None:
    held = holds([2, 3], 4, "Restricted") | {"only": only, "elsewhere": elsewhere}
    check([(regular("SingleNUMANode"), [held])], (asking(cpu, memory), "required"), "LeastAllocated")


def test_what_an_attempt_trims_another_one_has_in_full() -> None:
    """Of four reserved CPUs, on two cores, a pod that takes one of each core may have less than four."""
    node = regular("SingleNUMANode", "SpreadByPCPUs")
    node["zones"][0] = {**node["zones"][0], "held_cpus": [0, 1]}
    shapes = [(node, [holds([2, 3], 4, "Restricted")])]
    world, pod = World(shapes), wanting("2", "1Gi")
    for _ in range(2):
        state = world.attempt(pod)
        assert state is not None
        reusable = reusable_on(state, "n0")
        (item,) = reusable.matched.values()
        assert item.remained[0]["cpu"] == Quantity.of(4)
        assert world.plugin.filter_nodes(state, pod, world.made.handle.nodes.all()).status(0).is_success
        assert item.remained[0]["cpu"] == Quantity.of(3)
        reusable.kept(state, _check_in_full)
    check(shapes, (asking("2", "1Gi"), ""), "LeastAllocated")


def _check_in_full(known: NodeReusable) -> None:
    (item,) = known.matched.values()
    assert item.remained[0]["cpu"] == Quantity.of(4)


def test_a_reservation_that_is_too_small_is_not_nominated_where_another_one_is_large_enough() -> None:
    world, pod = World([(regular("SingleNUMANode"), [holds([2], 7), holds([3], 1)])]), wanting("2", "12Gi")
    state = world.attempt(pod)
    assert state is not None
    assert world.plugin.filter_nodes(state, pod, world.made.handle.nodes.all()).status(0).is_success
    pairs = world.pairs(pod, match=True)
    verdict = world.plugin.filter_nominate_reservations(state, pairs)
    assert [verdict.status(at).is_success for at in range(2)] == [True, False]
    expected = [
        world.plugin.filter_nominate_reservation(state, pod, info, node.name) for _, info, node in pairs
    ]
    assert [verdict.status(at) for at in range(2)] == expected


@pytest.mark.parametrize("numa", ["", "BestEffort", "Restricted", "SingleNUMANode"])
@pytest.mark.parametrize("policy", ["", "Aligned", "Restricted"])
@pytest.mark.parametrize("bind", ["", "FullPCPUsOnly", "SpreadByPCPUs"])
def test_no_regular_node_is_evaluated_by_itself(
    numa: str, policy: str, bind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = regular(numa, bind)
    node["zones"][1] = {**node["zones"][1], "held_memory": 16}  # so that the pod is where the reservation is
    shape = node, [holds([2, 3], 4, policy, used="half")]
    world, pod = World([shape] * 3), wanting("2", "1Gi")
    plugin, nodes = world.plugin, world.made.handle.nodes.all()
    state = world.attempt(pod)
    assert state is not None
    monkeypatch.setattr(plugin, "_filter", None)
    monkeypatch.setattr(plugin, "_score", None)
    verdict = plugin.filter_nodes(state, pod, nodes)
    assert [verdict.status(at).is_success for at in range(3)] == [True] * 3
    nominable = plugin.filter_nominate_reservations(state, world.pairs(pod, match=True))
    assert [nominable.status(at).is_success for at in range(3)] == [True] * 3
    world.nominated.by_node = {info.node_name: info for _, info, _ in world.reservations}
    assert len(set(plugin.score_nodes(state, pod, nodes).tolist())) == 1
