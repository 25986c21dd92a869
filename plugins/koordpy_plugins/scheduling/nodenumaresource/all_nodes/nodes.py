"""Filter and Score of all nodes: by arrays where these can tell, else one by one."""

from collections.abc import Callable
from functools import partial

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.reservation_annotations import is_ignored_by
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import NUMATopologyHintProvider
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.status import PASS, Status, Verdict

from ..attempt.pod_state import PodState
from ..reservations.reusable import restored_in
from .arrays import Arrays
from .other_hints import HintGroups, ProviderGroups
from .plain import PlainNodes
from .special import Special


class AllNodes:
    """Leaves plain nodes aside and asks the arrays about the others. `own` is the provider of CPUs."""

    def __init__(
        self, handle: Handle, own: NUMATopologyHintProvider, arrays: Arrays, plain: PlainNodes
    ) -> None:
        self._handle, self._own, self._arrays, self._plain = handle, own, arrays, plain

    def filter(
        self, state: CycleState, found: PodState, pod: Pod, nodes: NodeSet, one: Callable[[NodeInfo], Status]
    ) -> Verdict:
        """Return the answers of `one` for all nodes, for a pod without a designated allocation."""
        plain = self._plain.of(found, nodes)
        if plain is None:
            return self._filter(state, found, pod, nodes, one)
        if np.count_nonzero(plain) == len(plain):
            return PASS
        others = np.flatnonzero(~plain)
        return self._filter(state, found, pod, nodes.pick(others), one).spread(others, len(nodes))

    def _filter(
        self, state: CycleState, found: PodState, pod: Pod, nodes: NodeSet, one: Callable[[NodeInfo], Status]
    ) -> Verdict:
        special = self._special(state, found, pod, nodes)
        filtered = self._arrays.filter(state, found, nodes, special, partial(self._other_hints, state, pod))
        return filtered.verdict(lambda at: one(NodeInfo(nodes, at)))

    def _other_hints(self, state: CycleState, pod: Pod, nodes: NodeSet) -> HintGroups | None:
        """Return what other providers have for nodes; None if each node must be asked about by itself."""
        own = self._own
        providers = [
            each
            for each in self._handle.framework.numa_hint_providers
            if each is own or each.has_numa_hints(state, pod)
        ]
        others = [each.numa_hint_groups(state, pod, nodes) for each in providers if each is not own]
        groups = [ProviderGroups.of(each) for each in others if each is not None]
        return HintGroups(groups, providers.index(own)) if len(groups) == len(others) else None

    def accepts(self, state: CycleState, found: PodState, pairs: ReservationPairs) -> Bool:
        """(k,) which pairs are known to be accepted: plain nodes need nothing of a reservation."""
        plain = self._plain.of(found, pairs.nodes)
        accepted: Bool = np.zeros(len(pairs), np.bool_) if plain is None else plain[pairs.at]
        others = np.flatnonzero(~accepted)
        if len(others):
            some = pairs.pick(others)
            nodes = pairs.nodes.pick(np.unique(some.at))
            special = self._special(state, found, some.pods[0], nodes)
            accepted[others] = self._arrays.accepts(state, found, some, special)
        return accepted

    def score(
        self, state: CycleState, found: PodState, pod: Pod, nodes: NodeSet, one: Callable[[NodeInfo], int]
    ) -> Int64:
        """Return (n,) the answers of `one` for all nodes."""
        plain = self._plain.of(found, nodes)
        if plain is None:
            return self._score(state, found, pod, nodes, one)
        scores = self._plain.score(found, nodes)
        if np.count_nonzero(plain) != len(plain):
            others = np.flatnonzero(~plain)
            scores[others] = self._score(state, found, pod, nodes.pick(others), one)
        return scores

    def _score(
        self, state: CycleState, found: PodState, pod: Pod, nodes: NodeSet, one: Callable[[NodeInfo], int]
    ) -> Int64:
        special = self._special(state, found, pod, nodes)
        if is_ignored_by(pod):
            special = Special(np.ones(len(nodes), np.bool_))
        nominated = self._handle.reservations.nominated_among(pod, state, nodes) if special.offering else {}
        scores, alone = self._arrays.score(state, found, nodes, special, nominated)
        for at in np.flatnonzero(alone).tolist():
            scores[at] = one(NodeInfo(nodes, at))
        return scores

    @staticmethod
    def _special(state: CycleState, found: PodState, pod: Pod, nodes: NodeSet) -> Special:
        """Return the nodes on which the attempt sees more than what is allocated."""
        takes_one = not (is_ignored_by(pod) or is_reserve_pod(pod))
        return Special.of(nodes, restored_in(state), found.preemptible.keys(), uses_offers=takes_one)
