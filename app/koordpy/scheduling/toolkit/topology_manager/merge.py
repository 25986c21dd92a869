"""Merges the hints of many resources into one that suits all.

The rule tries every combination of one hint per resource in order, and keeps the best so far. Which one is
best depends on that order: among masks with equally many bits a smaller number replaces a larger one
regardless of scores, a larger one replaces a smaller one only with a higher score.

The number of combinations is the product of the lists' lengths, so they are not tried one by one:

* Only choices of one kind can win: preferred ones if there are any, and among these the ones whose common
  mask has the fewest bits.
* Among equally wide choices the best is the first after which no choice has a smaller mask or a higher score:
  whatever were the best before it would also have to withstand all that follow, and so be that first one.
  So of a row of choices only three things count: its best choice, its smallest mask and its highest score.
* Only hints equal to the final mask score. So what follows the hints chosen so far depends on the mask that
  they have in common, and its row is found once for each mask.

Source of the rule: Koordinator, `pkg/scheduler/frameworkext/topologymanager/policy.go`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from koordpy.scheduling.interface import NUMATopologyHint

from . import many_hints

Hints = Sequence[NUMATopologyHint]

_Row = tuple[int, int, bool, int, int]
"""A row of choices: mask, score and unsatisfied of its best one, its smallest mask, its highest score."""


def merge(
    everything: int,
    lists: Sequence[Hints],
    allowed: Callable[[int], bool],
    *,
    only_preferred: bool = False,
) -> NUMATopologyHint:
    """Choose one hint of every list; return what they have in common.

    `everything` is the mask of all NUMA nodes. A mask that is not `allowed` is not preferred. Without any
    choice (a list is empty, or the hints exclude each other) the answer is all NUMA nodes, not preferred.
    With `only_preferred` that is also the answer if there is no preferred choice: it saves the longer search.
    """
    start = NUMATopologyHint(everything)
    if not all(lists):
        return start
    best = _PreferredSearch(everything, lists, allowed).run()
    if best is not None or only_preferred:
        return best or start
    if many_hints.suit(everything, lists):
        best = many_hints.search(everything, lists)
    else:
        best = _OtherSearch(everything, lists).run()
    if best is None or (best.affinity == everything and best.score <= 0):
        return start  # the rule begins with it, and no choice replaces it
    return best


class _Search(ABC):
    """Looks at choices from the last to the first.

    A *key* is the relevant state of the hints chosen so far.
    """

    preferred: bool
    start: int | None
    ends: Mapping[int | None, int]
    """The keys that only one mask can follow, which is then final. Final masks have equally many bits."""

    def __init__(self, lists: Sequence[Hints]) -> None:
        self.lists = lists
        self._rows: dict[tuple[int, int | None], _Row | None] = {}

    @abstractmethod
    def _options(self, at: int, key: int | None) -> Iterable[tuple[NUMATopologyHint, int | None]]:
        """Return the possible hints of a list, the last one first, each with the key that follows."""

    def run(self) -> NUMATopologyHint | None:
        """Return the best choice, None if there is none."""
        if not self.ends:
            return None
        self._width = next(iter(self.ends.values())).bit_count()
        row = self._row(0, self.start)
        return row and NUMATopologyHint(row[0], self.preferred, row[2], row[1])

    def _row(self, at: int, key: int | None) -> _Row | None:
        """Return the row of all choices from a list on; None if there are none."""
        if at == len(self.lists):
            mask = self.ends.get(key)
            return None if mask is None else (mask, 0, False, mask, 0)
        if (at, key) in self._rows:
            return self._rows[at, key]
        row: _Row | None = None
        for hint, following in self._options(at, key):
            after = self._row(at + 1, following)
            if after is None:
                continue
            mask, score, unsatisfied, smallest, highest = after
            if hint.affinity is not None and hint.affinity == self.ends.get(following):
                score, highest = score + hint.score, highest + hint.score
            if row is None or (mask <= row[3] and score >= row[4]):
                best = (mask, score, unsatisfied or self._dissatisfies(hint))
            else:
                best = row[:3]
            if row is not None:
                smallest, highest = min(smallest, row[3]), max(highest, row[4])
            row = (*best, smallest, highest)
        self._rows[at, key] = row
        return row

    def _dissatisfies(self, hint: NUMATopologyHint) -> bool:
        """Return whether a resource gets less than it requests if this hint is chosen."""
        return hint.unsatisfied or (hint.affinity is not None and hint.affinity.bit_count() != self._width)


class _PreferredSearch(_Search):
    """Choices of preferred hints that all have one affinity, or none; the key is that affinity."""

    preferred = True
    start = None

    def __init__(self, everything: int, lists: Sequence[Hints], allowed: Callable[[int], bool]) -> None:
        super().__init__(lists)
        self._preferred: list[dict[int | None, list[tuple[int, NUMATopologyHint]]]] = []
        for hints in lists:
            by_affinity: dict[int | None, list[tuple[int, NUMATopologyHint]]] = {}
            for position, hint in enumerate(hints):
                if hint.preferred:
                    by_affinity.setdefault(hint.affinity, []).append((-position, hint))
            self._preferred.append(by_affinity)
        ends = {
            affinity: mask
            for affinity in self._shared()
            for mask in (everything if affinity is None else affinity & everything,)
            if mask and allowed(mask)
        }
        fewest = min((mask.bit_count() for mask in ends.values()), default=0)
        self.ends = {affinity: mask for affinity, mask in ends.items() if mask.bit_count() == fewest}

    def _shared(self) -> set[int | None]:
        """Return the affinities that hints of all lists can have together; None stands for no affinity.

        A hint without affinity is compatible with any.
        """
        if not all(self._preferred):
            return set()
        strict = [set(by_affinity) for by_affinity in self._preferred if None not in by_affinity]
        anywhere: set[int | None] = {None}
        return set.intersection(*strict) if strict else anywhere.union(*self._preferred)

    def _options(self, at: int, key: int | None) -> Iterable[tuple[NUMATopologyHint, int | None]]:
        offered = self._preferred[at]
        reachable: Iterable[int | None] = self.ends if key is None else (key,)
        affinities = {affinity for affinity in reachable if affinity in offered}
        if None in offered:
            affinities.add(None)
        found = [option for affinity in affinities for option in offered[affinity]]
        found.sort(key=_by_position)
        return [(hint, key if hint.affinity is None else hint.affinity) for _, hint in found]


class _OtherSearch(_Search):
    """All choices, none of which is preferred; the key is the mask that the hints chosen have in common."""

    preferred = False

    def __init__(self, everything: int, lists: Sequence[Hints]) -> None:
        super().__init__(lists)
        self.start = everything
        meets = {everything}
        for hints in lists:
            masks = {everything if hint.affinity is None else hint.affinity for hint in hints}
            meets = {meet & mask for meet in meets for mask in masks}
        meets.discard(0)
        fewest = min((mask.bit_count() for mask in meets), default=0)
        self.ends = {mask: mask for mask in meets if mask.bit_count() == fewest}

    def _options(self, at: int, key: int | None) -> Iterable[tuple[NUMATopologyHint, int | None]]:
        assert key is not None
        for hint in reversed(self.lists[at]):
            following = key if hint.affinity is None else key & hint.affinity
            if following:
                yield hint, following


def _by_position(option: tuple[int, NUMATopologyHint]) -> int:
    return option[0]
