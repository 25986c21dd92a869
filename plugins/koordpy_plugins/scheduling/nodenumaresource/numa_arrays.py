"""Filter and Score, at once, of all nodes on which a NUMA policy holds.

The affinities that Filter finds are stored as the topology manager stores them. Nodes are left to be
evaluated by themselves if arrays do not give exactly the same: if the machine is irregular, or if an affinity
of this attempt is known already.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from koordpy.api.extension import CPU
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE, AffinityStore
from koordpy.scheduling.toolkit.topology_manager.policy import NumaTopologyExclusive

from .attempt.node_policies import exclusive_of
from .attempt.pod_state import Moment, PodState
from .scorer import Scorer
from .state.columns import NUMA_NODES, CPUColumns, CPURows
from .vector_scorer import of_nodes, scores
from .zone_admission import MOST_ZONES, Holding, Reasons, admit
from .zone_arrays import ZoneArrays, amplified, whole_amounts

_ANY = -1
"""Stands for no NUMA nodes in particular."""


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
    """(n,) keys of the reasons of refused nodes, and which nodes must be evaluated by themselves."""

    keys: Int64
    reasons: list[Reasons]
    alone: Bool


class NUMAArrays:
    """The array forms. `hint_scorer` scores hints, `scorer` nodes."""

    def __init__(self, columns: CPUColumns, hint_scorer: Scorer, scorer: Scorer) -> None:
        self._columns, self._hint_scorer, self._scorer = columns, hint_scorer, scorer

    # --- Filter ----------------------------------------------------------------------------------

    def filter(self, state: CycleState, pod: PodState, nodes: NodeSet, demands: Demands) -> Admission:
        """Admit a pod to nodes, and store the affinities."""
        rows = self._columns.of(nodes)
        wanted, store = whole_amounts(pod.requests), state.read(AFFINITY_STORE)
        result = Admission(np.zeros(len(nodes), np.int64), [()], np.ones(len(nodes), np.bool_))
        if wanted is None or store is None:
            return result
        moments = _moments(nodes)
        is_open = self._is_regular(rows) & ~_known(state, store, pod, nodes, moments)
        if exclusive_of(pod) is NumaTopologyExclusive.REQUIRED:
            is_open &= rows.flag("is_valid")
        zones = rows.number("zones").astype(np.int64)
        for mask in np.unique(zones[is_open]).tolist():
            here = np.flatnonzero(is_open & (zones == mask))
            if 0 < mask.bit_count() <= MOST_ZONES:
                self._admit(pod, nodes.pick(here), here, demands, store, moments, result)
        return result

    def _admit(
        self,
        pod: PodState,
        nodes: NodeSet,
        here: Int64,
        demands: Demands,
        store: AffinityStore,
        moments: list[Moment],
        result: Admission,
    ) -> None:
        rows, wanted = self._columns.of(nodes), whole_amounts(pod.requests)
        assert wanted is not None
        chosen = demands.pick(here)
        arrays = ZoneArrays(rows, pod, wanted, chosen.bind, chosen.required)
        offers = np.zeros(len(nodes), np.bool_)
        for name in wanted:
            offers |= arrays.offers(name)
        if not offers.all():
            keep = np.flatnonzero(offers)
            if len(keep):
                self._admit(pod, nodes.pick(keep), here[keep], demands, store, moments, result)
            return
        holding = Holding(
            chosen.policy,
            rows.number("single").astype(np.int64),
            rows.number("shared").astype(np.int64),
        )
        zones = tuple(bitmask.bits(int(rows.number("zones")[0])))
        admitted = admit(arrays, zones, holding, exclusive_of(pod), self._hint_scorer)
        result.alone[here] = False
        for key, reasons in enumerate(admitted.reasons):
            if reasons not in result.reasons:
                result.reasons.append(reasons)
            result.keys[here[admitted.keys == key]] = result.reasons.index(reasons)
        _store(pod, nodes, [moments[at] for at in here.tolist()], admitted.affinities, store)

    @staticmethod
    def _is_regular(rows: CPURows) -> Bool:
        """(n,) whether counts of CPUs are enough to know, and no zone has less than nothing."""
        regular = (rows.flag("is_regular") | ~rows.flag("has_topology")) & ~rows.has_unlisted
        return regular & (rows.capacity >= 0).all(axis=(1, 2))

    # --- Score -----------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: PodState, nodes: NodeSet, demands: Demands) -> tuple[Int64, Bool]:
        """Return (n,) scores, and which nodes must be scored by themselves instead."""
        rows, wanted = self._columns.of(nodes), whole_amounts(pod.requests)
        found, alone = np.zeros(len(nodes), np.int64), np.ones(len(nodes), np.bool_)
        if wanted is None:
            return found, alone
        is_open = self._is_regular(rows)
        masks = _stored(state, nodes)
        for mask in np.unique(masks[is_open]).tolist():
            here = np.flatnonzero(is_open & (masks == mask))
            if mask == 0:
                continue
            chosen = demands.pick(here)
            some = nodes.pick(here)
            arrays = ZoneArrays(self._columns.of(some), pod, wanted, chosen.bind, chosen.required)
            if mask != _ANY and mask >> arrays.width:
                continue
            found[here] = self._scores(some, arrays, mask)
            alone[here] = False
        return found, alone

    def _scores(self, nodes: NodeSet, arrays: ZoneArrays, mask: int) -> Int64:
        """(n,) scores on the NUMA nodes of a mask, 0 where these do not serve the pod."""
        rows = self._columns.of(nodes)
        if mask == _ANY:
            fits, used = arrays.has_cpus(), np.zeros(len(nodes), np.int64)
        else:
            fits, used = arrays.fits(tuple(bitmask.bits(mask)))
            fits = fits & (rows.number("zones") > 0)
        cpus = amplified(1000 * rows.number("allocated").astype(np.int64), rows.ratio("ratio"))

        def column(name: str) -> tuple[Int64, Int64]:
            (of_node, there), (of_zones, in_zones) = of_nodes(nodes, name), arrays.used_of(name, used)
            requested = np.where(used > 0, of_zones, of_node)
            if name == CPU:
                requested = np.where(arrays.bind, cpus, requested)
            return requested, np.where(used > 0, in_zones, there)

        found: Int64 = np.where(fits, scores(self._scorer, len(nodes), column, arrays.asked), 0)
        return found


def _moments(nodes: NodeSet) -> list[Moment]:
    """Return when each node, and the pods on it, last changed, as moments of the node table."""
    table, rows = nodes.table, nodes.rows
    return list(zip(table.generation[rows].tolist(), table.pods_generation[rows].tolist(), strict=True))


def _known(
    state: CycleState, store: AffinityStore, pod: PodState, nodes: NodeSet, moments: list[Moment]
) -> Bool:
    """(n,) which nodes have an affinity of this attempt that holds. One that is out of date is forgotten."""
    known = np.zeros(len(nodes), np.bool_)
    if not store:
        return known
    counts = state.read(SCHEDULING_PHASE) != "PostFilter"
    for at, (name, moment) in enumerate(zip(nodes.names, moments, strict=True)):
        if pod.admitted_at.get(name) != moment:
            store.pop(name, None)
        elif name in store:
            known[at] = counts
    return known


def _store(
    pod: PodState,
    nodes: NodeSet,
    moments: list[Moment],
    affinities: Sequence[NUMATopologyHint | None],
    store: AffinityStore,
) -> None:
    for name, moment, affinity in zip(nodes.names, moments, affinities, strict=True):
        if affinity is not None:
            store[name] = affinity
            pod.admitted_at[name] = moment


def _stored(state: CycleState, nodes: NodeSet) -> Int64:
    """(n,) the masks of the affinities stored for nodes, `_ANY` for none."""
    store = state.read(AFFINITY_STORE)
    if not store:
        return np.full(len(nodes), _ANY)
    nothing = NUMATopologyHint(None)
    masks = [store.get(name, nothing).affinity for name in nodes.names]
    return np.array([_ANY if mask is None else min(mask, 1 << NUMA_NODES) for mask in masks], np.int64)
