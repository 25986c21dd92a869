"""Filter and Score, at once, of all nodes on which a NUMA policy holds.

The affinities that Filter finds are stored as the topology manager stores them. Nodes are left to be
evaluated by themselves if arrays do not give exactly the same: if the machine is irregular, or if an affinity
of this attempt is known already.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from koordpy.api.extension import CPU
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState
from koordpy.scheduling.interface.status import SUCCESS
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY, AffinityStore
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE
from koordpy.scheduling.toolkit.topology_manager.policy import NumaTopologyExclusive, NUMATopologyPolicy

from ..attempt.node_policies import exclusive_of
from ..attempt.pod_state import PodState
from ..hints import Hints
from ..scorer import Scorer
from ..state.columns import NUMA_POLICIES, CPUColumns, CPURows
from .offered_zones import OfferedZones
from .offers import Offers
from .other_hints import HintGroups, OtherHints, Statuses, key_of
from .scores import of_nodes, scores
from .zone_admission import Holding, ZoneAdmission, has_amounts
from .zone_arrays import ZoneArrays, amplified, whole_amounts
from .zone_sets import MOST_ZONES, ZoneSets

_FEW_ZONES: Final = 3
"""With more NUMA nodes, whose sets are many, nodes in the same state are tried once."""

_RESTRICTED: Final = NUMA_POLICIES.index(NUMATopologyPolicy.RESTRICTED)

AskOthers = Callable[[NodeSet], HintGroups | None]
"""Returns what other providers have for nodes; None if each node must be asked about by itself."""


@dataclass(frozen=True, slots=True)
class Demands:
    """(n,) the NUMA policy and the required bind policy by position, and whether the pod gets CPUs."""

    policy: Int64
    bind: Bool
    required: Int64

    def pick(self, at: Int64) -> "Demands":
        """Return those of some nodes."""
        return Demands(self.policy[at], self.bind[at], self.required[at])


@dataclass(frozen=True, slots=True)
class Admission:
    """(n,) the keys of `statuses`, and which nodes must be evaluated by themselves."""

    keys: Int64
    statuses: Statuses
    alone: Bool


class NUMAArrays:
    """The array forms. `hint_scorer` scores hints, `scorer` nodes."""

    def __init__(self, columns: CPUColumns, hint_scorer: Scorer, scorer: Scorer) -> None:
        self._columns, self._hint_scorer, self._scorer = columns, hint_scorer, scorer

    # --- Filter ----------------------------------------------------------------------------------

    def filter(
        self,
        state: CycleState,
        pod: PodState,
        nodes: NodeSet,
        rows: CPURows,
        demands: Demands,
        ask: AskOthers,
        offers: Offers,
    ) -> Admission:
        """Admit a pod to nodes, of which there are columns, and store the affinities.

        `offers` are those of nodes with reservations for the pod, by index.
        """
        wanted, store = whole_amounts(pod.requests), state.read(AFFINITY_STORE)
        result = Admission(np.zeros(len(nodes), np.int64), {SUCCESS: 0}, np.ones(len(nodes), np.bool_))
        if wanted is None or store is None:
            return result
        is_open = _is_open(state, store, pod, nodes, rows)
        groups = ask(nodes) if is_open.any() else None
        if groups is None:
            return result
        is_open &= ~groups.unknown
        everything = _Some(nodes, rows, demands, groups, offers, np.arange(len(nodes)))
        some = everything.pick(np.flatnonzero(is_open))
        masks, scores = np.full(len(nodes), ANY), np.zeros(len(nodes), np.int64)
        kinds = 2 * some.rows.number("zones").astype(np.int64)
        kinds[some.offers.at] += 1
        for kind in np.unique(kinds).tolist():
            mask = kind >> 1
            if 0 < mask.bit_count() <= MOST_ZONES:
                here = _refuse(some.pick(np.flatnonzero(kinds == kind)), result)
                if len(here.at):
                    self._admit(pod, here, mask, result, (masks, scores))
        found = np.flatnonzero((result.keys == 0) & ~result.alone)
        if len(found):
            admitted = nodes.pick(found)
            store.put_all(admitted, masks[found], scores[found])
            pod.admitted_at.mark(admitted)
        return result

    def _admit(
        self, pod: PodState, some: "_Some", mask: int, result: Admission, found: tuple[Int64, Int64]
    ) -> None:
        """Admit the pod to nodes with the NUMA nodes of a mask, all of which have offers, or none."""
        wanted = whole_amounts(pod.requests)
        assert wanted is not None
        rows, demands = some.rows, some.demands
        asked = pod, wanted, demands.bind, demands.required
        arrays = OfferedZones(some.offers, *asked) if len(some.offers) else ZoneArrays(rows, *asked)
        sets = ZoneSets(tuple(bitmask.bits(mask)), wanted)
        others = OtherHints(some.groups, sets.numbers, len(arrays))
        decided = has_amounts(arrays) & others.is_plain
        if not decided.all():
            if decided.any():
                self._admit(pod, some.pick(np.flatnonzero(decided)), mask, result, found)
            return
        single, shared = (rows.number(name).astype(np.int64) for name in ("single", "shared"))
        holding = Holding(demands.policy, single, shared)
        which, first = np.arange(len(arrays)), np.arange(len(arrays))
        if len(sets.zones) > _FEW_ZONES and not len(some.offers):
            which, first = arrays.alike([*holding, *some.groups.numbers])
        if len(first) < len(arrays):
            arrays, holding = arrays.pick(first), Holding(*(column[first] for column in holding))
            others = others.pick(first)
        admission = ZoneAdmission(arrays, sets, holding, exclusive_of(pod), others)
        admitted = admission.admit(self._hint_scorer)
        keys = np.array([key_of(status, result.statuses) for status in admitted.statuses])[admitted.keys]
        result.alone[some.at], result.keys[some.at] = False, keys[which]
        found[0][some.at], found[1][some.at] = admitted.masks[which], admitted.scores[which]

    def hints(self, pod: PodState, node: NodeSet, demands: Demands) -> Hints | None:
        """Return what `hints.topology_hints` returns for a node; None if arrays cannot tell."""
        wanted, rows = whole_amounts(pod.requests), self._columns.of(node)
        mask = int(rows.number("zones")[0])
        if wanted is None or not rows.is_countable[0] or not 0 < mask.bit_count() <= MOST_ZONES:
            return None
        arrays = ZoneArrays(rows, pod, wanted, demands.bind, demands.required)
        sets = ZoneSets(tuple(bitmask.bits(mask)), wanted)
        is_restricted = int(demands.policy[0]) == _RESTRICTED
        return sets.hints(arrays, self._hint_scorer, is_restricted=is_restricted)

    def serves(
        self, state: CycleState, pod: PodState, nodes: NodeSet, rows: CPURows, demands: Demands
    ) -> Bool:
        """(n,) whether what the columns of nodes show serves the pod in the affinities of the attempt.

        False also where arrays cannot tell. Nodes may occur more than once.
        """
        wanted, store = whole_amounts(pod.requests), state.read(AFFINITY_STORE)
        found = np.zeros(len(nodes), np.bool_)
        if wanted is None:
            return found
        masks = np.full(len(nodes), ANY) if store is None else store.masks(nodes)[1]
        for here, zones in _by_size(masks, rows):
            chosen = demands.pick(here)
            arrays = ZoneArrays(rows.pick(here), pod, wanted, chosen.bind, chosen.required)
            if zones is None:
                found[here] = arrays.has_cpus()
            else:
                found[here] = arrays.fits(zones, np.arange(len(here)))[0]
        return found

    # --- Score -----------------------------------------------------------------------------------

    def score(
        self, state: CycleState, pod: PodState, nodes: NodeSet, rows: CPURows, demands: Demands
    ) -> tuple[Int64, Bool]:
        """Return (n,) scores, and which nodes must be scored by themselves instead."""
        wanted, store = whole_amounts(pod.requests), state.read(AFFINITY_STORE)
        found, alone = np.zeros(len(nodes), np.int64), np.ones(len(nodes), np.bool_)
        if wanted is None:
            return found, alone
        masks = np.full(len(nodes), ANY) if store is None else store.masks(nodes)[1]
        for here, zones in _by_size(masks, rows):
            chosen, of_some = demands.pick(here), rows.pick(here)
            arrays = ZoneArrays(of_some, pod, wanted, chosen.bind, chosen.required)
            found[here] = self._scores(nodes.pick(here), of_some, arrays, zones)
            alone[here] = False
        return found, alone

    def _scores(self, nodes: NodeSet, rows: CPURows, arrays: ZoneArrays, zones: Int64 | None) -> Int64:
        """(n,) scores on NUMA nodes (k, n), or any of them, 0 where these do not serve the pod."""
        if zones is None:
            fits, used = arrays.has_cpus(), np.zeros(len(nodes), np.int64)
        else:
            fits, used = arrays.fits(zones, np.arange(len(nodes)))
        cpus = amplified(1000 * arrays.held_cpus(zones, used), rows.ratio("ratio"))
        by_zone = used > 0

        def column(name: str) -> tuple[Int64, Int64]:
            requested, there = arrays.used_of(name, used)
            if not by_zone.all():
                of_node, in_node = of_nodes(nodes, name)
                requested, there = np.where(by_zone, requested, of_node), np.where(by_zone, there, in_node)
            if name == CPU:
                requested = np.where(arrays.bind, cpus, requested)
            return requested, there

        found: Int64 = np.where(fits, scores(self._scorer, len(nodes), column, arrays.asked), 0)
        return found


@dataclass(frozen=True, slots=True)
class _Some:
    """Some of the nodes, their columns, what is demanded there, and their indexes among all."""

    nodes: NodeSet
    rows: CPURows
    demands: Demands
    groups: HintGroups
    offers: Offers
    at: Int64

    def pick(self, at: Int64) -> "_Some":
        """Return those at some positions, ascending."""
        if len(at) == len(self.at):
            return self
        return _Some(
            self.nodes.pick(at),
            self.rows.pick(at),
            self.demands.pick(at),
            self.groups.pick(at),
            self.offers.among(at, len(self.at)),
            self.at[at],
        )


def _refuse(some: _Some, result: Admission) -> _Some:
    """Refuse the nodes for which another provider has no hints; return the others."""
    keys = np.zeros(len(some.at), np.int64)
    some.groups.refuse(keys, result.statuses)
    refused = some.at[keys > 0]
    result.keys[refused], result.alone[refused] = keys[keys > 0], False
    return some.pick(np.flatnonzero(keys == 0))


def _by_size(masks: Int64, rows: CPURows) -> Iterator[tuple[Int64, Int64 | None]]:
    """Yield nodes whose affinities (n,) have equally many NUMA nodes, with these (k, m), ascending.

    With None those whose affinity is any NUMA nodes. Nodes that arrays cannot tell about, and those that do
    not have the NUMA nodes, are left out.
    """
    is_open, has_zones = rows.is_countable, masks & ~rows.number("zones").astype(np.int64) == 0
    here = np.flatnonzero(is_open & (masks == ANY))
    if len(here):
        yield here, None
    sizes = np.where(is_open & has_zones & (masks != ANY), np.bitwise_count(masks), 0)
    for size in range(1, MOST_ZONES + 1):
        here = np.flatnonzero(sizes == size)
        if len(here):
            is_in = masks[here] >> np.arange(MOST_ZONES)[:, None] & 1
            yield here, np.argsort(-is_in, axis=0, kind="stable")[:size]


def _is_open(state: CycleState, store: AffinityStore, pod: PodState, nodes: NodeSet, rows: CPURows) -> Bool:
    """(n,) which nodes arrays can decide."""
    is_open = rows.is_countable & ~_known(state, store, pod, nodes)
    if exclusive_of(pod) is NumaTopologyExclusive.REQUIRED:
        is_open &= rows.flag("is_valid")
    return is_open


def _known(state: CycleState, store: AffinityStore, pod: PodState, nodes: NodeSet) -> Bool:
    """(n,) which nodes have an affinity of this attempt that holds. One that is out of date is forgotten."""
    if not store:
        return np.zeros(len(nodes), np.bool_)
    known, _ = store.masks(nodes)
    for at in np.flatnonzero(known & ~pod.admitted_at.hold(nodes)).tolist():
        store.pop(nodes.names[at])
        known[at] = False
    if state.read(SCHEDULING_PHASE) == "PostFilter":
        known[:] = False
    return known
