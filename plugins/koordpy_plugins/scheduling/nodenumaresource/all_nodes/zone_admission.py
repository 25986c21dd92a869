"""The affinities of a pod on many nodes with a strict NUMA policy at once.

Restricted and SingleNUMANode admit a pod if there is a set of NUMA nodes that is preferred for each of its
resources: of these the smallest wins, and among equally large ones the order of the sets and their scores
decide (`topology_manager.merge`). Arrays find it for all nodes. The topology manager itself says why nodes
are refused, once for all nodes with the same hints.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import comb
from typing import Final

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.lib.row_groups import group
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.interface.status import SUCCESS, Status
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
from ..state.columns import NUMA_NODES, NUMA_POLICIES
from .other_hints import OtherHints, Statuses, key_of
from .zone_arrays import ZoneArrays

MOST_ZONES: Final = NUMA_NODES
"""Nodes with more NUMA nodes are evaluated by themselves. Kubernetes allows 8, which have 255 sets."""

_SINGLE: Final = NUMA_POLICIES.index(NUMATopologyPolicy.SINGLE_NUMA_NODE)
_NONE: Final = -1
_CELLS: Final = 1 << 15
"""Of arrays over masks and nodes: more than a processor's cache holds take longer."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """(n,) the masks of the affinities, `ANY` for no NUMA nodes in particular, and their scores.

    `keys` (n,) are those of `statuses`, of which the first is Success; masks of refused nodes mean nothing.
    """

    masks: Int64
    scores: Int64
    keys: Int64
    statuses: Statuses


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

    `others` are the hints of other providers for the same nodes. Sets of NUMA nodes are tried by size: most
    nodes serve the pod with few of them, so that only some nodes are left for the many larger sets.
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
        self._offered = np.array([arrays.offers(name) for name in self._names])
        """(names, n) whether a node offers a resource."""

    def admit(self, scorer: Scorer) -> Admitted:
        """Return the affinities."""
        count = len(self._arrays)
        masks, scores = np.full(count, ANY), np.zeros(count, np.int64)
        left, arrays = np.arange(count), self._arrays
        serving = np.zeros((len(self._names), 0, count), np.bool_)
        for tried in self._by_size():
            serves = self._serves(arrays, tried, left)
            candidates = self._candidates(serves, tried, left)
            found = np.flatnonzero(candidates.any(axis=0))
            if len(found):
                totals = self._totals(scorer, arrays.pick(found), tried, left[found])
                best = self._best(candidates[:, found], totals, tried)
                masks[left[found]] = np.array(self._numbers[tried])[best]
                scores[left[found]] = totals[best, np.arange(len(found))]
            open_ = np.flatnonzero(~candidates.any(axis=0))
            serving = np.concatenate([serving, serves], axis=1)[..., open_]
            left, arrays = left[open_], arrays.pick(open_)
            if not len(left):
                break
        is_any = (self._holding.policy == _SINGLE) & (masks == bitmask.of(self._zones))
        scores[is_any], masks[is_any] = 0, ANY
        keys, statuses = np.zeros(count, np.int64), {SUCCESS: 0}
        self._refuse(left, serving, keys, statuses)
        self._others.check(masks, keys, statuses)
        return Admitted(masks, scores, keys, statuses)

    # --- hints -----------------------------------------------------------------------------------

    def _by_size(self) -> Iterator[slice]:
        """Yield the positions of the masks of one NUMA node, of two, and so on."""
        end = 0
        for size in range(1, len(self._zones) + 1):
            begin, end = end, end + comb(len(self._zones), size)
            yield slice(begin, end)

    def _serves(self, arrays: ZoneArrays, tried: slice, nodes: Int64) -> Bool:
        """(names, masks, nodes) whether masks serve a resource."""
        found = np.zeros((len(self._names), tried.stop - tried.start, len(nodes)), np.bool_)
        offered = self._offered[:, nodes]
        for begin, masks in self._blocks(tried, len(nodes)):
            fits, _ = arrays.fits(masks)
            for row, name in enumerate(self._names):
                if offered[row].any():
                    serves = fits & offered[row] & arrays.has_left(name, masks)
                    found[row, begin : begin + len(serves)] = serves
        return found

    def _blocks(self, tried: slice, nodes: int) -> Iterator[tuple[int, Int64]]:
        """Yield some of the masks at a time, (k, m), with the position of their first among those tried."""
        masks = np.array(self._masks[tried]).T
        step = max(_CELLS // (len(masks) * nodes), 1)
        for begin in range(0, masks.shape[1], step):
            yield begin, masks[:, begin : begin + step]

    def _candidates(self, serves: Bool, tried: slice, nodes: Int64) -> Bool:
        """(masks, nodes) whether masks are preferred for all resources, and the pod may have them."""
        found = self._others.preferred(tried, nodes)
        for row, offered in zip(serves, self._offered[:, nodes], strict=True):
            found &= row | ~offered
        several = len(self._masks[tried.start]) > 1
        if several:
            found &= self._holding.policy[nodes] != _SINGLE
        if self._exclusive is NumaTopologyExclusive.REQUIRED:
            shared, single = (statuses[nodes] for statuses in self._statuses())
            unwanted = single if several else shared
            found &= (unwanted & np.array(self._numbers[tried])[:, None]) == 0
        return found

    def _statuses(self) -> tuple[Int64, Int64]:
        """(n,) the masks of NUMA nodes that are shared, and of those that have pods of their own alone."""
        there = (1 << len(self._zones)) - 1
        shared = self._holding.shared & there
        return shared, self._holding.single & there & ~shared

    def _totals(self, scorer: Scorer, arrays: ZoneArrays, tried: slice, nodes: Int64) -> Int64:
        """(masks, nodes) the sums of the scores of all hints with masks."""
        resources = self._offered[:, nodes].sum(axis=0)
        blocks = self._blocks(tried, len(nodes))
        own = np.concatenate([arrays.scores(scorer, masks) for _, masks in blocks])
        totals: Int64 = own * resources + self._others.scores(tried, nodes)
        return totals

    def _best(self, candidates: Bool, totals: Int64, tried: slice) -> Int64:
        """(n,) which of the masks, equally large ones, wins on nodes that have candidates (masks, n).

        The order is that of `merge`: the best is the first after which no other is smaller or scores more.
        """
        best = np.full(candidates.shape[1], _NONE)
        least, most = np.zeros_like(best), np.zeros_like(best)
        numbers = self._numbers[tried]
        for at in reversed(range(len(numbers))):
            here, number, score = candidates[at], numbers[at], totals[at]
            first = here & (best == _NONE)
            wins = first | (here & (number <= least) & (score >= most))
            best[wins] = at
            least = np.where(first, number, np.where(here, np.minimum(least, number), least))
            most = np.where(first, score, np.where(here, np.maximum(most, score), most))
        return best

    # --- refusals --------------------------------------------------------------------------------

    def _refuse(self, refused: Int64, serving: Bool, keys: Int64, statuses: Statuses) -> None:
        """Set the keys of refused nodes (r,), on which masks serve resources or not (names, masks, r)."""
        if not len(refused):
            return
        packed = np.packbits(serving, axis=1).reshape(-1, len(refused))
        columns = (self._holding.policy, *self._statuses(), *self._offered, self._others.kinds)
        groups, first = group([*(column[refused] for column in columns), *packed], len(refused))
        of_group = []
        for at in first.tolist():
            status = Status.unschedulable(*self._reasons(int(refused[at]), serving[..., at]))
            of_group.append(key_of(status, statuses))
        keys[refused] = np.array(of_group, np.int64)[groups]

    def _reasons(self, at: int, serving: Bool) -> tuple[str, ...]:
        """Return why a node is refused on which masks serve resources or not (names, masks)."""
        policy = NUMATopologyPolicy(NUMA_POLICIES[int(self._holding.policy[at])])
        is_restricted = policy is NUMATopologyPolicy.RESTRICTED
        own: Mapping[str, Sequence[NUMATopologyHint]] = {
            name: hints_of(
                [(self._numbers[place], 0) for place in np.flatnonzero(serves).tolist()],
                is_restricted=is_restricted,
            )
            for name, serves, offered in zip(self._names, serving, self._offered[:, at].tolist(), strict=True)
            if offered
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
