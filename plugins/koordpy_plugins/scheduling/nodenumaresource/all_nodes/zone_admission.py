"""The affinities of a pod on many nodes with a strict NUMA policy at once.

Restricted and SingleNUMANode admit a pod if there is a set of NUMA nodes that is preferred for each of its
resources: of these the smallest wins, and among equally large ones the order of the sets and their scores
decide (`topology_manager.merge`). Arrays find it for all nodes. The topology manager itself says why nodes
are refused, once for all nodes with the same hints.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Final

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.lib.row_groups import group
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY
from koordpy.scheduling.toolkit.topology_manager.policy import (
    Exclusive,
    NumaNodeStatus,
    NumaTopologyExclusive,
    NUMATopologyPolicy,
    ProviderHints,
    merge_hints,
)

from ..hints import hints_of
from ..scorer import Scorer
from ..state.columns import NUMA_POLICIES
from .other_hints import OtherHints
from .zone_arrays import ZoneArrays

MOST_ZONES: Final = 5
"""Nodes with more NUMA nodes are evaluated by themselves: there are 31 sets of 5, and a bit for each."""

_SINGLE: Final = NUMA_POLICIES.index(NUMATopologyPolicy.SINGLE_NUMA_NODE)
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Admitted:
    """(n,) the masks of the affinities, `ANY` for no NUMA nodes in particular, and their scores.

    `keys` (n,) are indexes into `statuses`, of which the first is Success; masks of refused nodes mean
    nothing.
    """

    masks: Int64
    scores: Int64
    keys: Int64
    statuses: Sequence[Status]


@dataclass(frozen=True, slots=True)
class Holding:
    """(n,) the NUMA policy by position, and masks of the NUMA nodes of pods on one, or on several."""

    policy: Int64
    single: Int64
    shared: Int64


def subsets(zones: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the sets of NUMA nodes in the order in which they are tried: by size, then by position."""
    sizes = range(1, len(zones) + 1)
    return list(chain.from_iterable(combinations(zones, size) for size in sizes))


class ZoneAdmission:
    """Admits a pod to n nodes that all have the same NUMA nodes, which have some of what it requests.

    `others` are the hints of other providers for the same nodes.
    """

    def __init__(
        self,
        arrays: ZoneArrays,
        zones: Sequence[int],
        holding: Holding,
        exclusive: NumaTopologyExclusive,
        others: OtherHints,
    ) -> None:
        self._arrays, self._zones, self._holding = arrays, zones, holding
        self._exclusive, self._others = exclusive, others
        self._masks = subsets(zones)
        self._numbers = [bitmask.of(mask) for mask in self._masks]
        self._names = sorted(arrays.wanted)
        self._offered = {name: arrays.offers(name) for name in self._names}
        self._bits = self._hint_bits()

    def admit(self, scorer: Scorer) -> Admitted:
        """Return the affinities."""
        candidates = self._candidates()
        totals = self._totals(scorer)
        best = self._best(candidates, totals)
        is_single, everything = self._holding.policy == _SINGLE, bitmask.of(self._zones)
        masks = np.array([*self._numbers, ANY])[best]
        is_any = is_single & (masks == everything)
        scores = np.where(is_any, 0, totals[best, np.arange(len(best))])
        masks = np.where(is_any, ANY, masks)
        keys, statuses = np.zeros(len(best), np.int64), [Status()]
        self._refuse(np.flatnonzero(best == _NONE), keys, statuses)
        self._others.check(masks, keys, statuses)
        return Admitted(masks, scores, keys, statuses)

    # --- hints -----------------------------------------------------------------------------------

    def _hint_bits(self) -> Int64:
        """(names, n) a bit for each mask that serves a resource, by position."""
        bits = np.zeros((len(self._names), len(self._arrays)), np.int64)
        fits = [self._arrays.fits(mask)[0] for mask in self._masks]
        for row, name in enumerate(self._names):
            if not self._offered[name].any():
                continue
            for at, mask in enumerate(self._masks):
                serves = self._offered[name] & fits[at] & self._arrays.has_left(name, mask)
                bits[row] |= serves.astype(np.int64) << at
        return bits

    def _candidates(self) -> Int64:
        """(n,) a bit for each mask that is preferred for all resources, and that the pod may have."""
        every = (1 << len(self._masks)) - 1
        found = np.full(len(self._arrays), every)
        for bits, name in zip(self._bits, self._names, strict=True):
            found &= np.where(self._offered[name], bits, every)
        of_one = sum(1 << at for at, mask in enumerate(self._masks) if len(mask) == 1)
        found &= np.where(self._holding.policy == _SINGLE, of_one, every)
        if self._exclusive is NumaTopologyExclusive.REQUIRED:
            shared, single = self._statuses()
            for at, (mask, number) in enumerate(zip(self._masks, self._numbers, strict=True)):
                unwanted = single if len(mask) > 1 else shared
                found &= np.where(unwanted & number, every & ~(1 << at), every)
        found &= self._others.preferred
        return found

    def _statuses(self) -> tuple[Int64, Int64]:
        """(n,) the masks of NUMA nodes that are shared, and of those that have pods of their own alone."""
        there = (1 << len(self._zones)) - 1
        shared = self._holding.shared & there
        return shared, self._holding.single & there & ~shared

    def _totals(self, scorer: Scorer) -> Int64:
        """(masks, n) the sums of the scores of all hints with a mask."""
        resources = np.sum(list(self._offered.values()), axis=0)
        own = np.stack([self._arrays.scores(scorer, mask) for mask in self._masks])
        totals: Int64 = own * resources + self._others.scores
        return totals

    def _best(self, candidates: Int64, totals: Int64) -> Int64:
        """(n,) the position of the mask that wins, `_NONE` without candidates.

        The order is that of `merge`: the best is the first after which no other is smaller or scores more.
        """
        best = np.full(len(candidates), _NONE)
        least, most = np.zeros_like(best), np.zeros_like(best)
        open_ = candidates != 0
        for size in range(1, len(self._zones) + 1):
            positions = [at for at, mask in enumerate(self._masks) if len(mask) == size]
            of_size = sum(1 << at for at in positions)
            now = open_ & (candidates & of_size != 0)
            for at in reversed(positions):
                here = now & (candidates >> at & 1 != 0)
                number, score = self._numbers[at], totals[at]
                first = here & (best == _NONE)
                wins = first | (here & (number <= least) & (score >= most))
                best[wins] = at
                least = np.where(first, number, np.where(here, np.minimum(least, number), least))
                most = np.where(first, score, np.where(here, np.maximum(most, score), most))
            open_ &= ~now
            if not open_.any():
                break
        return best

    # --- refusals --------------------------------------------------------------------------------

    def _refuse(self, refused: Int64, keys: Int64, statuses: list[Status]) -> None:
        """Set the keys of refused nodes."""
        if not len(refused):
            return
        offered = [self._offered[name] for name in self._names]
        columns = [self._holding.policy, *self._statuses(), *offered, *self._bits, self._others.offers]
        groups, first = group([column[refused] for column in columns], len(refused))
        of_group = []
        for at in refused[first].tolist():
            status = Status.unschedulable(*self._reasons(at))
            if status not in statuses:
                statuses.append(status)
            of_group.append(statuses.index(status))
        keys[refused] = np.array(of_group, np.int64)[groups]

    def _reasons(self, at: int) -> tuple[str, ...]:
        """Return why a node is refused."""
        policy = NUMATopologyPolicy(NUMA_POLICIES[int(self._holding.policy[at])])
        is_restricted = policy is NUMATopologyPolicy.RESTRICTED
        own: Mapping[str, Sequence[NUMATopologyHint]] = {
            name: hints_of(
                [(number, 0) for place, number in enumerate(self._numbers) if int(bits[at]) >> place & 1],
                is_restricted=is_restricted,
            )
            for name, bits in zip(self._names, self._bits, strict=True)
            if self._offered[name][at]
        }
        offers: list[ProviderHints] = self._others.with_own(at, own)
        shared, single = (int(masks[at]) for masks in self._statuses())
        statuses = [_status(node, single, shared) for node in range(len(self._zones))]
        exclusive = Exclusive(self._exclusive, statuses)
        return merge_hints(policy, self._zones, offers, exclusive, for_admission=True).reasons


def _status(node: int, single: int, shared: int) -> NumaNodeStatus:
    if shared >> node & 1:
        return NumaNodeStatus.SHARED
    return NumaNodeStatus.SINGLE if single >> node & 1 else NumaNodeStatus.IDLE


def has_amounts(arrays: ZoneArrays) -> Bool:
    """(n,) whether any NUMA node has any of the resources that the pod requests."""
    found = np.zeros(len(arrays), np.bool_)
    for name in arrays.wanted:
        found |= arrays.offers(name)
    return found
