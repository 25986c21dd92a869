"""The affinities of a pod on many nodes with a strict NUMA policy at once.

Restricted and SingleNUMANode admit a pod if there is a set of NUMA nodes that is preferred for each of its
resources: of these the smallest wins, and among equally large ones the order of the sets and their scores
decide (`topology_manager.merge`). Arrays find it for all nodes. Why nodes are refused is written once for all
that have the same hints.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.lib.row_groups import group
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY
from koordpy.scheduling.toolkit.topology_manager.policy import (
    NumaTopologyExclusive,
    NUMATopologyPolicy,
    rejection,
)

from ..scorer import Scorer
from ..state.columns import NUMA_POLICIES
from .other_hints import OtherHints, Statuses, key_of
from .zone_arrays import ZoneArrays
from .zone_sets import ZoneSets

_SINGLE: Final = NUMA_POLICIES.index(NUMATopologyPolicy.SINGLE_NUMA_NODE)
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Admitted:
    """(n,) the masks of the affinities, `ANY` for no NUMA nodes in particular, and their scores.

    `keys` (n,) are those of `statuses`, of which the first is Success; masks of refused nodes mean nothing.
    """

    masks: Int64
    scores: Int64
    keys: Int64
    statuses: Statuses


class Holding(NamedTuple):
    """(n,) the NUMA policy by position, and masks of the NUMA nodes of pods on one, or on several."""

    policy: Int64
    single: Int64
    shared: Int64


class ZoneAdmission:
    """Admits a pod to n nodes that all have the same NUMA nodes, which have some of what it requests.

    `others` are the hints of other providers for the same nodes. Sets of NUMA nodes are tried by size: most
    nodes serve the pod with few of them, so that only some nodes are left for the many larger sets.
    """

    def __init__(
        self,
        arrays: ZoneArrays,
        sets: ZoneSets,
        holding: Holding,
        exclusive: NumaTopologyExclusive,
        others: OtherHints,
    ) -> None:
        self._arrays, self._sets, self._holding = arrays, sets, holding
        self._exclusive, self._others = exclusive, others
        self._offered = sets.offered(arrays)
        """(names, n) whether a node offers a resource."""

    def admit(self, scorer: Scorer) -> Admitted:
        """Return the affinities."""
        count = len(self._arrays)
        masks, scores = np.full(count, ANY), np.zeros(count, np.int64)
        left, arrays = np.arange(count), self._arrays
        for tried in self._sets.by_size():
            found, best, totals = self._admit(arrays, tried, left, scorer)
            masks[left[found]] = np.array(self._sets.numbers[tried])[best]
            scores[left[found]] = totals
            open_ = np.delete(np.arange(len(left)), found)
            left, arrays = left[open_], arrays.pick(open_)
            if not len(left):
                break
        is_any = (self._holding.policy == _SINGLE) & (masks == bitmask.of(self._sets.zones))
        scores[is_any], masks[is_any] = 0, ANY
        keys, statuses = np.zeros(count, np.int64), {SUCCESS: 0}
        self._refuse(arrays, left, keys, statuses)
        self._others.check(masks, keys, statuses)
        return Admitted(masks, scores, keys, statuses)

    def _admit(
        self, arrays: ZoneArrays, tried: slice, nodes: Int64, scorer: Scorer
    ) -> tuple[Int64, Int64, Int64]:
        """Return (f,) which of the nodes equally large sets serve, the best set of each, and its score."""
        allowed = self._allowed(tried, nodes)
        here = np.flatnonzero(allowed.any(axis=0))
        if not len(here):
            return here, here, here
        some, offered = arrays.pick(here), self._offered[:, nodes[here]]
        candidates = self._sets.admitting(some, tried, offered, allowed[:, here])
        served = np.flatnonzero(candidates.any(axis=0))
        if not len(served):
            return served, served, served
        found = here[served]
        totals = self._totals(scorer, some.pick(served), tried, nodes[found])
        best = self._best(candidates[:, served], totals, tried)
        return found, best, totals[best, np.arange(len(best))]

    # --- hints -----------------------------------------------------------------------------------

    def _allowed(self, tried: slice, nodes: Int64) -> Bool:
        """(sets, nodes) whether the pod may have equally large sets, and others prefer them."""
        found = self._others.preferred(tried, nodes)
        several = tried.start > 0
        if several:
            found &= self._holding.policy[nodes] != _SINGLE
        if self._exclusive is NumaTopologyExclusive.REQUIRED:
            shared, single = (statuses[nodes] for statuses in self._statuses())
            unwanted = single if several else shared
            found &= (unwanted & np.array(self._sets.numbers[tried])[:, None]) == 0
        return found

    def _statuses(self) -> tuple[Int64, Int64]:
        """(n,) the masks of NUMA nodes that are shared, and of those that have pods of their own alone."""
        there = (1 << len(self._sets.zones)) - 1
        shared = self._holding.shared & there
        return shared, self._holding.single & there & ~shared

    def _totals(self, scorer: Scorer, arrays: ZoneArrays, tried: slice, nodes: Int64) -> Int64:
        """(masks, nodes) the sums of the scores of all hints with masks."""
        resources = self._offered[:, nodes].sum(axis=0)
        own = self._sets.scores(arrays, tried, scorer)
        totals: Int64 = own * resources + self._others.scores(tried, nodes)
        return totals

    def _best(self, candidates: Bool, totals: Int64, tried: slice) -> Int64:
        """(n,) which of the masks, equally large ones, wins on nodes that have candidates (masks, n).

        The order is that of `merge`: the best is the first after which no other is smaller or scores more.
        """
        best = np.full(candidates.shape[1], _NONE)
        least, most = np.zeros_like(best), np.zeros_like(best)
        numbers = self._sets.numbers[tried]
        for at in reversed(range(len(numbers))):
            here, number, score = candidates[at], numbers[at], totals[at]
            first = here & (best == _NONE)
            wins = first | (here & (number <= least) & (score >= most))
            best[wins] = at
            least = np.where(first, number, np.where(here, np.minimum(least, number), least))
            most = np.where(first, score, np.where(here, np.maximum(most, score), most))
        return best

    # --- refusals --------------------------------------------------------------------------------

    def _refuse(self, arrays: ZoneArrays, refused: Int64, keys: Int64, statuses: Statuses) -> None:
        """Set the keys of refused nodes (r,), of which there are arrays."""
        if not len(refused):
            return
        offered = self._offered[:, refused]
        serving = np.concatenate(
            [self._sets.serving(arrays, tried, offered) for tried in self._sets.by_size()], axis=1
        )
        packed = np.packbits(serving, axis=1).reshape(-1, len(refused))
        columns = (self._holding.policy, *self._offered, self._others.kinds)
        groups, first = group([*(column[refused] for column in columns), *packed], len(refused))
        of_group = []
        for at in first.tolist():
            status = Status.unschedulable(*self._reasons(int(refused[at]), serving[..., at]))
            of_group.append(key_of(status, statuses))
        keys[refused] = np.array(of_group, np.int64)[groups]

    def _reasons(self, at: int, serving: Bool) -> tuple[str, ...]:
        """Return why a node is refused on which sets serve resources or not (names, sets)."""
        policy = NUMATopologyPolicy(NUMA_POLICIES[int(self._holding.policy[at])])
        is_restricted = policy is NUMATopologyPolicy.RESTRICTED
        own = self._sets.told(serving, self._offered[:, at], is_restricted=is_restricted)
        return rejection(policy, self._others.told(at, own))


def has_amounts(arrays: ZoneArrays) -> Bool:
    """(n,) whether any NUMA node has any of the resources that the pod requests."""
    found = np.zeros(len(arrays), np.bool_)
    for name in arrays.wanted:
        found |= arrays.offers(name)
    return found
