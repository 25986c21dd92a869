"""What is found out about one node with reservations and kept for others, and for later pods, holds there."""

import json
from random import Random
from typing import Any

import numpy as np
import pytest

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import each
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.toolkit.topology_manager.affinities import AffinityStore
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE
from koordpy.testing.reservations import GivenReservations
from koordpy_plugins.scheduling.deviceshare.reservations.restored import RESTORED

from ...reservation.scenes import reservation
from ..clusters import PERCENT, Profile, hint, pod
from ..nodes import card, device, gpu
from ..test_all_nodes import PODS

NODES = 16
KINDS = (
    *PODS.values(),
    pod("n", {PERCENT: "100"}, **hint(gpu={"selector": {"matchLabels": {"a": "c"}}})),
    pod("o", {PERCENT: "300"}),
)
MASKS = (None, 0b01, 0b10, 0b11)


class Nominated(GivenReservations):
    """The reservations that are nominated by the name of the node."""

    def __init__(self) -> None:
        self.by_node: dict[str, ReservationInfo] = {}

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        return self.by_node.get(node_name)


def held(minors: list[int], percent: int) -> dict[str, str]:
    amounts = {
        extension.GPU_CORE: f"{percent}",
        extension.GPU_MEMORY_RATIO: f"{percent}",
        extension.GPU_MEMORY: f"{percent * (16 << 30) // 100}",
    }
    gpus = [{"minor": minor, "resources": amounts} for minor in minors]
    return {extension.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": gpus})}


def user(name: str, node: str, minors: list[int], percent: int) -> Pod:
    metadata = {"name": name, "namespace": "x", "uid": f"uid-{name}", "annotations": held(minors, percent)}
    containers = [{"name": "c", "resources": {"requests": {PERCENT: f"{percent * len(minors)}"}}}]
    return decode(Pod, {"metadata": metadata, "spec": {"nodeName": node, "containers": containers}})


class World:
    """Nodes of few kinds with four GPUs on two NUMA nodes, pods, and up to two reservations each."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.cluster = rng, Cluster()
        self.infos: dict[str, list[ReservationInfo]] = {}
        for place in range(NODES):
            self.add_node(f"n{place}")

    def add_node(self, name: str) -> None:
        rng = self.rng
        self.cluster.store(Node).apply(decode(Node, {"metadata": {"name": name, "uid": name}}))
        gpus = [
            gpu(minor, labels={"a": "b"}, topology={"nodeID": minor // 2, "pcieID": f"{minor // 2}"})
            for minor in range(4)
        ]
        self.cluster.store(Device).apply(device([*gpus, *map(card, range(rng.randrange(2)))], name=name))
        free = [0, 1, 2, 3]
        self.infos[name] = []
        for number in range(rng.choice((0, 1, 1, 2))):
            minors = [free.pop(0) for _ in range(rng.choice((1, 1, 1, 2)))]
            share = rng.choice((100, 100, 100, 60))
            made = reservation(
                f"r-{name}-{number}",
                name,
                annotations=held(minors, share),
                allocatePolicy=rng.choice(("", "Restricted")),
            )
            self.cluster.store(Reservation).apply(made)
            info = ReservationInfo(made)
            if rng.random() < 0.5:
                using = user(f"u-{name}-{number}", name, minors[:1], rng.choice((share, share, 20)))
                self.cluster.store(Pod).apply(using)
                info.assign(AssignedPod.of(using))
            self.infos[name].append(info)
        if rng.random() < 0.3:
            self.take(name, free)

    def take(self, node: str, free: list[int]) -> None:
        """Run another pod with a GPU."""
        self.cluster.store(Pod).apply(user(f"p-{node}", node, free[:1], self.rng.choice((100, 30))))

    def pairs(self, nodes: NodeSet, pod: Pod) -> tuple[ReservationPairs, ReservationPairs]:
        """Return the pairs that match, and the others."""
        kinds: tuple[list[Any], list[Any]] = ([], [])
        for index, name in enumerate(nodes.names):
            for info in self.infos[name]:
                kinds[self.rng.random() < 0.3].append((index, info))
        of_kind = [
            ReservationPairs(
                nodes,
                np.array([index for index, _ in kind], np.int64),
                [pod] * len(kind),
                [i for _, i in kind],
            )
            for kind in kinds
        ]
        return of_kind[0], of_kind[1]


def attempt(profile: Profile, pod: Pod, pairs: tuple[ReservationPairs, ReservationPairs]) -> CycleState:
    state = CycleState()
    assert profile.plugin.pre_restore_reservation(state, pod).is_success
    profile.plugin.restore_reservations(state, pod, *pairs)
    assert profile.plugin.pre_filter(state, pod, pairs[0].nodes)[1].is_success
    return state


def choose(state: CycleState, nodes: NodeSet, rng: Random) -> None:
    """Choose NUMA nodes for the pod on some nodes."""
    store = AffinityStore()
    for name in nodes.names:
        mask = rng.choice(MASKS)
        if mask is not None:
            store[name] = NUMATopologyHint(mask, preferred=True)
    state.write(AFFINITY_STORE, store)


@pytest.mark.parametrize("seed", range(12))
def test_alike_nodes_with_reservations_answer_as_one_by_one(seed: int) -> None:
    rng = Random(seed)
    world = World(rng)
    profile, nominated = Profile(world.cluster), Nominated()
    profile.handle.publish_reservations(nominated)
    plugin, nodes = profile.plugin, world.cluster.nodes.all()
    kinds = [*KINDS] * 2
    rng.shuffle(kinds)
    grouped = 0
    for incoming in kinds:
        nominated.by_node = {}
        if rng.random() < 0.3:
            world.add_node(f"n{rng.randrange(NODES)}")
        pairs = world.pairs(nodes, incoming)
        state = attempt(profile, incoming, pairs)
        restored = state.read(RESTORED)
        assert restored is not None
        grouped += len(restored.special(nodes))
        verdict = plugin.filter_nodes(state, incoming, nodes)
        alone = [plugin.filter(state, incoming, node) for node in each(nodes)]
        assert [verdict.status(index) for index in range(NODES)] == alone
        hints = plugin.numa_hint_groups(state, incoming, nodes)
        if hints is not None:
            for index, node in enumerate(each(nodes)):
                number = int(hints.numbers[index])
                if number >= 0:
                    assert hints.hints[number] == plugin.pod_topology_hints(state, incoming, node)
                    for mask in MASKS:
                        which, statuses = hints.check(
                            np.array([index]), np.array([-1 if mask is None else mask])
                        )
                        chosen = NUMATopologyHint(mask, preferred=True)
                        assert statuses[which[0]] == plugin.allocate(state, chosen, incoming, node)
        choose(state, nodes, rng)
        matched = pairs[0]
        found = plugin.filter_nominate_reservations(state, matched)
        of_pairs = [
            plugin.filter_nominate_reservation(state, incoming, info, node.name) for _, info, node in matched
        ]
        assert [found.status(index) for index in range(len(matched))] == of_pairs
        accepted = [
            at
            for at, (_, _, node) in enumerate(matched)
            if of_pairs[at].is_success and alone[node.index].is_success
        ]
        to_score = matched.pick(np.array(accepted, np.int64))
        assert plugin.score_reservations(state, to_score).tolist() == [
            plugin.score_reservation(state, incoming, info, node.name) for _, info, node in to_score
        ]
        nominated.by_node = {node.name: info for _, info, node in matched if rng.random() < 0.7}
        left = nodes.subset(np.array([status.is_success for status in alone]))
        scores = plugin.score_nodes(state, incoming, left)
        assert scores.tolist() == [plugin.score(state, incoming, node) for node in each(left)]
    assert grouped
