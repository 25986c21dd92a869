"""CPUs and devices of all nodes at once: NodeNUMAResource and DeviceShare together answer as node by node."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.quantity import parse
from koordpy.api.resource_amounts import Amounts
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Filter
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo, each
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.restored_nodes import RestoredNodes
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE
from koordpy_plugins.scheduling.deviceshare.plugin import DeviceShare
from koordpy_plugins.scheduling.deviceshare.reservations.restored import RESTORED as DEVICES_RESTORED
from koordpy_plugins.scheduling.deviceshare.reservations.restored import Restored, RestoredNode
from koordpy_plugins.scheduling.nodenumaresource.attempt import pod_state
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource
from koordpy_plugins.scheduling.nodenumaresource.reservations.reusable import RESTORED as CPUS_RESTORED
from koordpy_plugins.scheduling.nodenumaresource.reservations.reusable import NodeReusable

from ...scheduling.worlds import framework as framework_of
from .deviceshare.nodes import amounts, device
from .nodenumaresource import test_numa_arrays as zones
from .nodenumaresource.numa_world import bound_pod, spec

WHOLE = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
PLACE = st.sampled_from([0, 0, 0, 1, 1, 1, 2, 3, -1, None])
USED = st.sampled_from([0, 0, 0, 30, 100])
CARD = st.tuples(PLACE, USED, st.sampled_from([True, True, True, True, False]))
OWNERS_USE = st.sampled_from(
    [
        {0: {"cpu": "2", "memory": "1Gi"}},
        {0: {"cpu": "4", "memory": "8Gi"}, 1: {"cpu": "1", "memory": "8Gi"}},
        {1: {"memory": "3Gi"}, 2: {"cpu": "2500m", "memory": "8Gi"}},
    ]
) | st.dictionaries(
    st.sampled_from([0, 0, 1, 1, 3, 70]),
    st.dictionaries(
        st.sampled_from(["cpu", "cpu", "memory", "memory", "example.com/odd"]),
        st.sampled_from(["0", "1", "2", "2500m", "1Gi", "3Gi", "1500u", "-1"]),
        max_size=2,
    ),
    max_size=2,
)
"""What pods have of reservations that do not match, by NUMA node."""
DEVICES = st.fixed_dictionaries(
    {
        "device": st.sampled_from([True] * 6 + [False]),
        "gpus": st.lists(CARD, max_size=8) | st.lists(CARD, min_size=6, max_size=8),
        "regular": st.sampled_from([True, True, False]),
        "cards": st.lists(CARD, max_size=4),
        "model": st.sampled_from(["", "", "H100", "A"]),
        "planned": st.sampled_from([False, False, True]),
        "special": st.sampled_from(["", "", "", "reservation", "devices", "preemption"]),
        "used": OWNERS_USE,
    }
)
NODES = st.tuples(zones.NODES, DEVICES)
PODS = st.fixed_dictionaries(
    {
        "gpu": st.sampled_from(["", "50", "100", "200", "400"]),
        "rdma": st.sampled_from(["", "", "10", "100", "200"]),
        "joint": st.sampled_from([None, None, "", "SamePCIe"]),
        "strategy": st.sampled_from(["", "", "ApplyForAll"]),
        "scope": st.sampled_from(["", "", "PCIe", "NUMANode"]),
        "partition": st.sampled_from(["", "", "Restricted"]),
    }
)


def cards(count: int, used: list[int]) -> st.SearchStrategy[list[Any]]:
    """Healthy devices that are used or not."""
    card = st.tuples(st.just(0), st.sampled_from(used), st.just(True))
    return st.lists(card, min_size=count, max_size=count)


STRICT_ZONES = st.fixed_dictionaries(
    {
        "bind": st.just(""),
        "numa": st.sampled_from(["Restricted", "SingleNUMANode"]),
        "ratio": st.sampled_from(["", "", '{"cpu":1.5}']),
        "topology": st.just("regular"),
        "zones": st.lists(
            st.fixed_dictionaries(
                {
                    "cpu": st.just("8"),
                    "memory": st.just("16Gi"),
                    "held_cpus": st.sampled_from([[], [], [0, 1], [0, 1, 2, 3], list(range(7))]),
                    "held_memory": st.sampled_from([0, 1, 8]),
                }
            ),
            min_size=2,
            max_size=3,
        ),
        "ids": st.just((0, 1, 2, 3)),
        "across": st.just(set()),
    }
)
STRICT_DEVICES = st.fixed_dictionaries(
    {
        "device": st.just(True),
        "gpus": st.lists(
            st.tuples(st.just(0), st.sampled_from([0, 0, 100]), st.just(True)), min_size=8, max_size=8
        ),
        "regular": st.just(True),
        "cards": st.lists(
            st.tuples(st.just(0), st.sampled_from([0, 100]), st.just(True)), min_size=4, max_size=4
        ),
        "model": st.just(""),
        "planned": st.just(False),
        "special": st.sampled_from(["", "", "reservation"]),
        "used": OWNERS_USE,
    }
)
MANY_ZONES = st.sampled_from([4, 4, 5]).flatmap(zones.many_numa_nodes)
MANY_PLACES = st.fixed_dictionaries(
    {
        "device": st.just(True),
        "gpus": st.lists(
            st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 100]), st.just(True)), min_size=6, max_size=8
        ),
        "regular": st.just(False),
        "cards": st.just([]),
        "model": st.just(""),
        "planned": st.just(False),
        "special": st.just(""),
        "used": st.just({}),
    }
)
PLAIN_POD = {
    "memory": st.just("1Gi"),
    "qos": st.just("LSR"),
    "required": st.sampled_from(["", "FullPCPUs"]),
    "exclusive": st.just(""),
    "numa": st.just(""),
    "alone": st.sampled_from(["", "Required"]),
}


def listed(shape: dict[str, Any]) -> Device | None:
    """GPUs and cards; two GPUs, and a card, are at each PCIe switch; regular GPUs are four on a NUMA node."""
    infos: list[dict[str, Any]] = []
    for type_ in ("gpu", "rdma"):
        cards = shape["gpus" if type_ == "gpu" else "cards"]
        for minor, (node, _, health) in enumerate(cards):
            if shape["regular"]:
                node = minor // 4 if type_ == "gpu" else minor // 2
            switch = minor // 2 if type_ == "gpu" else minor
            whole = {**WHOLE, "koordinator.sh/gpu-memory": "16Gi"}
            info = {
                "type": type_,
                "minor": minor,
                "health": health,
                "resources": whole if type_ == "gpu" else {"koordinator.sh/rdma": "100"},
            }
            if node is not None:
                info["topology"] = {"nodeID": node, "pcieID": f"{node}-{switch}"}
            infos.append(info)
    labels = {extension.LABEL_SECONDARY_DEVICE_WELL_PLANNED: "true"} if shape["planned"] else {}
    return device(infos, labels=labels) if shape["device"] else None


def hold(plugin: DeviceShare, name: str, shape: dict[str, Any]) -> None:
    for type_, cards in (("gpu", shape["gpus"]), ("rdma", shape["cards"])):
        for minor, (_, used, _) in enumerate(cards):
            if used:
                names = tuple(WHOLE) if type_ == "gpu" else ("koordinator.sh/rdma",)
                held = amounts(dict.fromkeys(names, str(used)))
                given_ = {type_: (DeviceAllocation(minor, held),)}
                plugin.ledger.reserve(name, f"x/{name}-{type_}-{minor}", given_)


def pod_of(asks: dict[str, Any], devices: dict[str, Any]) -> Pod:
    annotations = spec(requiredCPUBindPolicy=asks["required"], preferredCPUExclusivePolicy=asks["exclusive"])
    numa = {"numaTopologyPolicy": asks["numa"], "singleNUMANodeExclusive": asks["alone"]}
    annotations[extension.ANNOTATION_NUMA_TOPOLOGY_SPEC] = json.dumps(numa)
    if devices["joint"] is not None:
        joint = {"deviceTypes": ["gpu", "rdma"], "requiredScope": devices["joint"]}
        annotations[extension.ANNOTATION_DEVICE_JOINT_ALLOCATE] = json.dumps(joint)
    hints: dict[str, dict[str, str]] = {}
    if devices["strategy"]:
        hints["rdma"] = {"allocateStrategy": devices["strategy"]}
    if devices["scope"]:
        hints["gpu"] = {"requiredTopologyScope": devices["scope"]}
    if hints:
        annotations[extension.ANNOTATION_DEVICE_ALLOCATE_HINT] = json.dumps(hints)
    if devices["partition"]:
        partition = json.dumps({"allocatePolicy": devices["partition"]})
        annotations[extension.ANNOTATION_GPU_PARTITION_SPEC] = partition
    pod = bound_pod("p", asks["cpu"], qos=asks["qos"], annotations=annotations)
    requests = pod.spec.containers[0].resources.requests
    requests["memory"] = asks["memory"]
    for name in ("gpu", "rdma"):
        if devices[name]:
            requests[f"koordinator.sh/{name}"] = devices[name]
    return pod


def quantities(used: dict[int, dict[str, str]]) -> dict[int, Amounts]:
    return {node: {name: parse(amount) for name, amount in of_node.items()} for node, of_node in used.items()}


class World:
    """A cluster, and a profile with both plugins in either order."""

    def __init__(self, shapes: list[Any], *, devices_first: bool) -> None:
        self.shapes = shapes
        for zone, of_devices in shapes:
            zone["model"] = of_devices["model"]
        self.cluster: Cluster = zones.cluster_of([zone for zone, _ in shapes])
        for at, (_, shape) in enumerate(shapes):
            found = listed(shape)
            if found is not None:
                found.metadata.name = f"n{at}"
                self.cluster.store(Device).apply(found)
        order = (DeviceShare, NodeNUMAResource) if devices_first else (NodeNUMAResource, DeviceShare)
        self.made: Framework = framework_of(self.cluster, *order)
        self.cpus = next(one for one in self.made.plugins if isinstance(one, NodeNUMAResource))
        self.devices = next(one for one in self.made.plugins if isinstance(one, DeviceShare))
        zones.hold(self.cpus, [zone for zone, _ in shapes])
        for at, (_, shape) in enumerate(shapes):
            hold(self.devices, f"n{at}", shape)
        self.nodes: NodeSet = self.cluster.nodes.all()

    def state(self, pod: Pod) -> CycleState | None:
        """Run PreFilter, and mark some nodes as special."""
        state = self.made.new_state()
        if not self.made.run_pre_filter(state, pod, self.nodes).status.is_success:
            return None
        marked: dict[str, set[str]] = {}
        for at, (_, shape) in enumerate(self.shapes):
            marked.setdefault(shape["special"], set()).add(f"n{at}")
        reusable = RestoredNodes[NodeReusable]()
        for at, (_, shape) in enumerate(self.shapes):
            if shape["special"] == "reservation":
                reusable.keep(f"n{at}", NodeReusable(unmatched_used=quantities(shape["used"])))
        state.write(CPUS_RESTORED, reusable)
        twice = {"gpu": {0: amounts(WHOLE)}}
        restored = RestoredNodes[RestoredNode]()
        for name in marked.get("devices", ()):
            restored.keep(name, RestoredNode(unmatched_used=twice))
        state.write(DEVICES_RESTORED, Restored(False, restored))
        for info in each(self.nodes):
            if info.name in marked.get("preemption", ()):
                victim = bound_pod(f"{info.name}-gpu-0", "1", node_name=info.name)
                victim.metadata.namespace = "x"
                self.devices.remove_pod(state, pod, victim, info)
        return state

    def alone(self, state: CycleState, pod: Pod, info: NodeInfo, *, devices_first: bool) -> list[Status]:
        found, _ = pod_state.read(state)
        answers = []
        for is_devices in (devices_first, not devices_first):
            if is_devices:
                answers.append(self.devices.filter(state, pod, info))
            elif not found.is_skipped:
                answers.append(self.cpus._filter.filter(state, self.cpus._case(found, pod, info), info))
            else:
                answers.append(Status())
        return answers


@settings(max_examples=120)
@given(st.lists(NODES, min_size=1, max_size=4), zones.PODS, PODS, st.booleans())
def test_all_nodes_at_once_answer_as_one_by_one(
    shapes: list[Any], asks: dict[str, Any], wants: dict[str, Any], devices_first: bool
) -> None:
    agree(shapes, asks, wants, devices_first=devices_first)


@settings(max_examples=80)
@given(
    st.lists(st.tuples(STRICT_ZONES, STRICT_DEVICES), min_size=2, max_size=6),
    st.fixed_dictionaries(
        {
            **PLAIN_POD,
            "cpu": st.sampled_from(["2", "4", "8"]),
            "memory": st.sampled_from(["1Gi", "10Gi", "16Gi"]),
        }
    ),
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("strategy", "scope", "partition"), st.just("")),
            "gpu": st.sampled_from(["50", "100", "200", "200", "400", "600"]),
            "rdma": st.sampled_from(["", "", "100"]),
            "joint": st.sampled_from([None, "", "SamePCIe"]),
        }
    ),
    st.booleans(),
)
def test_regular_nodes_with_strict_policies_get_the_numa_nodes_that_suit_cpus_and_devices(
    shapes: list[Any], asks: dict[str, Any], wants: dict[str, Any], devices_first: bool
) -> None:
    agree(shapes, asks, wants, devices_first=devices_first)


@settings(max_examples=60)
@given(
    MANY_ZONES.flatmap(lambda of: st.tuples(*(st.tuples(st.just(each), MANY_PLACES) for each in of))),
    st.fixed_dictionaries(
        {
            **PLAIN_POD,
            "cpu": st.sampled_from(["2", "8", "12", "16"]),
            "memory": st.sampled_from(["1Gi", "10Gi", "30Gi"]),
        }
    ),
    st.sampled_from(["100", "200", "200", "300"]),
    st.booleans(),
)
def test_nodes_with_many_numa_nodes_answer_as_one_by_one(
    shapes: Sequence[Any], asks: dict[str, Any], gpu: str, devices_first: bool
) -> None:
    nothing = dict.fromkeys(("strategy", "scope", "partition", "rdma"), "")
    wants = {**nothing, "gpu": gpu, "joint": None}
    agree([shapes[0], *shapes], asks, wants, devices_first=devices_first)  # two nodes are alike


def agree(shapes: list[Any], asks: dict[str, Any], wants: dict[str, Any], *, devices_first: bool) -> None:
    world = World(shapes, devices_first=devices_first)
    pod = pod_of(asks, wants)
    state, other, later = world.state(pod), world.state(pod), world.state(pod)
    if state is None or other is None or later is None:
        return
    nodes = world.nodes
    answers = [world.alone(other, pod, info, devices_first=devices_first) for info in each(nodes)]
    order: tuple[Filter, ...] = (world.devices, world.cpus) if devices_first else (world.cpus, world.devices)
    for cold in (state, later):  # the second time, what was found out before is remembered
        for position, plugin in enumerate(order):
            verdict = plugin.filter_nodes(cold, pod, nodes)
            expected = [statuses[position] for statuses in answers]
            assert [verdict.status(at) for at in range(len(nodes))] == expected
        assert cold.read(AFFINITY_STORE) == other.read(AFFINITY_STORE)
    passed = nodes.subset(np.array([all(one.is_success for one in statuses) for statuses in answers]))
    found, _ = pod_state.read(state)
    if not found.is_skipped:
        scored = [
            world.cpus._score.score(other, world.cpus._case(found, pod, info), info) for info in each(passed)
        ]
        assert world.cpus.score_nodes(state, pod, passed).tolist() == scored
    expected_scores = [world.devices.score(other, pod, info) for info in each(passed)]
    assert world.devices.score_nodes(state, pod, passed).tolist() == expected_scores


@pytest.mark.parametrize("numa", ["", "BestEffort", "Restricted", "SingleNUMANode"])
@pytest.mark.parametrize("joint", [None, "", "SamePCIe"])
@pytest.mark.parametrize("special", ["", "reservation"])
def test_no_regular_node_is_evaluated_by_itself(
    numa: str, joint: str | None, special: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = {"cpu": "8", "memory": "16Gi", "held_cpus": [0], "held_memory": 2}
    of_zones = {
        "bind": "", "numa": numa, "ratio": "", "topology": "regular", "zones": [zone] * 2,
        "ids": (0, 1, 2, 3), "across": set(),
    }  # fmt: skip
    of_devices = {
        "device": True, "gpus": [(0, 0, True)] * 8, "regular": True, "cards": [(0, 0, True)] * 4,
        "model": "", "planned": False, "special": special, "used": {0: {"cpu": "2", "memory": "1Gi"}},
    }  # fmt: skip
    asks = {
        "cpu": "4", "memory": "1Gi", "qos": "LSR", "required": "", "exclusive": "", "numa": "", "alone": ""
    }  # fmt: skip
    wants = {"gpu": "200", "rdma": "100", "joint": joint, "strategy": "", "scope": "", "partition": ""}
    world = World([(of_zones, of_devices)] * 3, devices_first=False)
    pod = pod_of(asks, wants)
    first, state = world.state(pod), world.state(pod)
    assert first is not None
    assert state is not None
    world.cpus.filter_nodes(first, pod, world.nodes)
    monkeypatch.setattr(world.cpus, "_filter", None)
    monkeypatch.setattr(world.cpus, "_score", None)
    monkeypatch.setattr(world.devices, "filter", None)
    monkeypatch.setattr(world.devices, "score", None)
    for plugin in (world.cpus, world.devices):
        verdict = plugin.filter_nodes(state, pod, world.nodes)
        assert all(verdict.status(at).is_success for at in range(3))
        assert len(plugin.score_nodes(state, pod, world.nodes)) == 3
