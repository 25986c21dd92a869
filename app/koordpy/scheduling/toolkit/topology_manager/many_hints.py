"""Merges long lists of hints, none of whose choices is preferred, with arrays; see `merge` for the rule.

Eight NUMA nodes have 255 masks, so a list can lead from each of 255 masks on 255 ways. What follows a mask is
kept in tables with one entry per mask, and the rows of all masks of a list are found together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from koordpy.scheduling.interface import NUMATopologyHint

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

_WIDEST = 1 << 12
"""Tables have an entry for every mask up to that of all NUMA nodes."""
_FEW = 64
"""So many hints in all lists are merged sooner one by one."""
_AT_ONCE = 1 << 15
"""Continuations in one array: few enough for the caches of a core."""
_SCORES = 1 << 48
"""Scores beyond it would need more than an int64 when they are added."""

_NO_MASK = 1 << 62
_NO_SCORE = -(1 << 62)


def suit(everything: int, lists: Sequence[Sequence[NUMATopologyHint]]) -> bool:
    """Return whether arrays are the faster way, and can hold what the lists have."""
    if everything >= _WIDEST or sum(map(len, lists)) <= _FEW:
        return False
    return all(-_SCORES < hint.score < _SCORES for hints in lists for hint in hints)


def search(everything: int, lists: Sequence[Sequence[NUMATopologyHint]]) -> NUMATopologyHint | None:
    """Return the best choice of one hint per list; None if all choices exclude each other."""
    columns = [_Columns.of(everything, hints) for hints in lists]
    reachable = [np.array([everything])]
    for column in columns:
        reachable.append(_meets(everything, reachable[-1], column.masks))
    ends = reachable[-1]
    if not ends.size:
        return None
    widths = np.bitwise_count(ends)
    width = int(widths.min())
    after = _Rows.ending_with(everything, ends[widths == width])
    settled = after.mask != _NO_MASK
    for column, masks in zip(reversed(columns), reversed(reachable[:-1]), strict=True):
        after = _before(after, column, masks, settled, width)
    mask, score = int(after.mask[everything]), int(after.score[everything])
    return NUMATopologyHint(mask, False, bool(after.unsatisfied[everything]), score)


@dataclass(frozen=True, slots=True)
class _Columns:
    """A list of hints by column: what of its affinity the node has, whether that is all of it, and the rest.

    `bits` is how many bits the whole affinity has, and 0 for a hint without affinity.
    """

    masks: Integers
    exact: Booleans
    bits: Integers
    unsatisfied: Booleans
    scores: Integers

    @classmethod
    def of(cls, everything: int, hints: Sequence[NUMATopologyHint]) -> "_Columns":
        rows = [
            (everything, False, 0, hint.unsatisfied, hint.score)
            if (mask := hint.affinity) is None
            else (
                mask & everything,
                mask | everything == everything,
                mask.bit_count(),
                hint.unsatisfied,
                hint.score,
            )
            for hint in hints
        ]
        masks, exact, bits, unsatisfied, scores = np.array(rows, np.int64).T
        return cls(masks, exact != 0, bits, unsatisfied != 0, scores)

    def dissatisfy(self, width: int) -> Booleans:
        """Return which hints give a resource less than it requests, if the final mask has so many bits."""
        too_wide: Booleans = (self.bits != 0) & (self.bits != width)
        return too_wide | self.unsatisfied


@dataclass(frozen=True, slots=True)
class _Rows:
    """By mask in common so far, the row of choices that follow: best one, smallest mask, highest score."""

    mask: Integers
    score: Integers
    unsatisfied: Booleans
    smallest: Integers
    highest: Integers

    @classmethod
    def empty(cls, everything: int) -> "_Rows":
        size = everything + 1
        masks, scores = np.full(size, _NO_MASK), np.full(size, _NO_SCORE)
        return cls(masks, scores, np.zeros(size, bool), masks.copy(), scores.copy())

    @classmethod
    def ending_with(cls, everything: int, ends: Integers) -> "_Rows":
        rows = cls.empty(everything)
        rows.mask[ends] = rows.smallest[ends] = ends
        rows.score[ends] = rows.highest[ends] = 0
        return rows


def _meets(everything: int, masks: Integers, others: Integers) -> Integers:
    """Return what masks of both kinds have in common, ascending, without nothing."""
    met = np.zeros(everything + 1, bool)
    met[masks[:, None] & np.unique(others)] = True
    met[0] = False
    return np.flatnonzero(met)


def _before(after: _Rows, column: _Columns, masks: Integers, settled: Booleans, width: int) -> _Rows:
    """Return the rows that begin with a list from the rows that follow it."""
    before = _Rows.empty(len(after.mask) - 1)
    dissatisfy = column.dissatisfy(width)
    scoring = np.flatnonzero(column.exact & settled[column.masks] & (column.scores != 0))
    step = max(_AT_ONCE // len(column.masks), 1)
    for keys in (masks[start : start + step] for start in range(0, len(masks), step)):
        following = keys[:, None] & column.masks
        score, highest = after.score[following], after.highest[following]
        gained = np.where(following[:, scoring] == column.masks[scoring], column.scores[scoring], 0)
        score[:, scoring] += gained
        highest[:, scoring] += gained
        mask, smallest = after.mask[following], after.smallest[following]
        smallest = np.minimum.accumulate(smallest[:, ::-1], axis=1)[:, ::-1]
        highest = np.maximum.accumulate(highest[:, ::-1], axis=1)[:, ::-1]
        best = mask != _NO_MASK
        best[:, :-1] &= (mask[:, :-1] <= smallest[:, 1:]) & (score[:, :-1] >= highest[:, 1:])
        lines = np.arange(len(keys))
        first = best.argmax(axis=1)
        found = best[lines, first]
        keys, lines, first = keys[found], lines[found], first[found]
        before.mask[keys], before.score[keys] = mask[lines, first], score[lines, first]
        before.unsatisfied[keys] = after.unsatisfied[following[lines, first]] | dissatisfy[first]
        before.smallest[keys], before.highest[keys] = smallest[lines, 0], highest[lines, 0]
    return before
