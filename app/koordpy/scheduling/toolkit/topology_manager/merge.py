"""Merges the hints of many resources into one that suits all.

The rule tries every combination of one hint per resource in order, and keeps the best so far. Which one is
best depends on that order: among masks with equally many bits a smaller number replaces a larger one
regardless of scores, a larger one replaces a smaller one only with a higher score.

The number of combinations is the product of the lists' lengths, so they are not tried one by one:

* Only choices of one kind can win: preferred ones if there are any, and among these the ones whose common
  mask has the fewest bits. Once the hints chosen so far leave such a mask, it is final: every continuation
  ends with it, and the best continuation is the best of each list.
* Before that nothing scores, because only hints equal to the final mask count. So the continuation depends on
little, and is computed once for each case, as a `_Sweep`.

Source of the rule: Koordinator, `pkg/scheduler/frameworkext/topologymanager/policy.go`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence

from koordpy.lib.bounded_cache import cached
from koordpy.scheduling.interface import NUMATopologyHint

Hints = Sequence[NUMATopologyHint]

_Sweep = list[tuple[NUMATopologyHint, NUMATopologyHint]]
"""The effect of a row of equally wide choices on the best so far: the choices that may be the first to
replace it, in order, each with the resulting best at the end of the row."""


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
    search: _Search = _PreferredSearch(everything, lists, allowed)
    if not search.masks and not only_preferred:
        search = _OtherSearch(everything, lists)
    return search.run()


def _replaces(hint: NUMATopologyHint, best: NUMATopologyHint | None) -> bool:
    if best is None or hint.affinity is None or best.affinity is None:
        return best is None
    return hint.affinity < best.affinity or hint.score > best.score


def _after(sweep: _Sweep, best: NUMATopologyHint) -> NUMATopologyHint:
    """Return the best after a row of choices."""
    return next((end for first, end in sweep if _replaces(first, best)), best)


def _joined(sweep: _Sweep, more: _Sweep) -> _Sweep:
    """Return the sweep of two rows one after the other."""
    if not sweep:
        return more
    joined = [(first, _after(more, end)) for first, end in sweep]
    lowest = min([first.affinity or 0 for first, _ in sweep])
    highest = max([first.score for first, _ in sweep])
    for first, end in more:
        affinity = first.affinity or 0
        if affinity < lowest or first.score > highest:
            joined.append((first, end))
            lowest, highest = min(lowest, affinity), max(highest, first.score)
    return joined


class _Search(ABC):
    """Iterates over choices in order. A *key* is the relevant state of the hints chosen so far."""

    preferred: bool
    start: int | None
    best: NUMATopologyHint | None = None
    masks: Collection[int]
    """The masks that choices of this kind end with; all have equally many bits."""

    def __init__(self, everything: int, lists: Sequence[Hints]) -> None:
        self.everything, self.lists = everything, lists
        self._width = 0
        self._sweeps: dict[tuple[int, int | None, bool], _Sweep] = {}
        self._rests: dict[tuple[int, int | None], tuple[int, bool]] = {}

    @abstractmethod
    def _options(self, at: int, key: int | None) -> Iterator[tuple[NUMATopologyHint, int | None]]:
        """Yield the hints of a list that lead to one of `masks`, with the key that follows."""

    @abstractmethod
    def _settled(self, at: int, key: int | None) -> int | None:
        """Return the mask that all choices from a list on end with, None while there are several."""

    def run(self) -> NUMATopologyHint:
        """Return the best choice."""
        best = self.best
        if self.masks:
            self._width = next(iter(self.masks)).bit_count()
            sweep = self._sweep(0, self.start, unsatisfied=False)
            best = sweep[0][1] if best is None else _after(sweep, best)
        return best or NUMATopologyHint(self.everything)

    def _sweep(self, at: int, key: int | None, *, unsatisfied: bool) -> _Sweep:
        """Return the effect of all choices from a list on."""
        known = self._sweeps.get((at, key, unsatisfied))
        if known is not None:
            return known
        sweep: _Sweep = []
        mask = self._settled(at, key)
        if mask is not None:
            sweep = self._end(at, key, mask, 0, unsatisfied=unsatisfied)
        elif at < len(self.lists):
            for hint, following in self._options(at, key):
                so_far = unsatisfied or self._dissatisfies(hint)
                mask = self._settled(at + 1, following)
                if mask is None:
                    more = self._sweep(at + 1, following, unsatisfied=so_far)
                else:
                    score = hint.score if hint.affinity == mask else 0
                    more = self._end(at + 1, following, mask, score, unsatisfied=so_far)
                sweep = _joined(sweep, more)
        self._sweeps[at, key, unsatisfied] = sweep
        return sweep

    def _end(self, at: int, key: int | None, mask: int, score: int, *, unsatisfied: bool) -> _Sweep:
        """Return the best continuation once the mask is final: the first with the highest score."""
        more, dissatisfied = self._rest(at, key, mask)
        hint = NUMATopologyHint(mask, self.preferred, unsatisfied or dissatisfied, score + more)
        return [(hint, hint)]

    def _rest(self, at: int, key: int | None, mask: int) -> tuple[int, bool]:
        if at == len(self.lists):
            return 0, False
        known = self._rests.get((at, key))
        if known is None:
            score, dissatisfied = max(
                (
                    (hint.score if hint.affinity == mask else 0, self._dissatisfies(hint))
                    for hint, _ in self._options(at, key)
                ),
                key=lambda choice: choice[0],
            )
            more, later = self._rest(at + 1, key, mask)
            known = self._rests[at, key] = score + more, dissatisfied or later
        return known

    def _dissatisfies(self, hint: NUMATopologyHint) -> bool:
        """Return whether a resource gets less than it requests if this hint is chosen."""
        return hint.unsatisfied or (hint.affinity is not None and hint.affinity.bit_count() != self._width)


class _PreferredSearch(_Search):
    """Choices of preferred hints that all have one affinity, or none; the key is that affinity."""

    preferred = True
    start = None

    def __init__(self, everything: int, lists: Sequence[Hints], allowed: Callable[[int], bool]) -> None:
        super().__init__(everything, lists)
        ends = {
            affinity: mask
            for affinity in _shared(lists)
            for mask in (everything if affinity is None else affinity & everything,)
            if mask and allowed(mask)
        }
        fewest = min((mask.bit_count() for mask in ends.values()), default=0)
        self._end_of = {affinity: mask for affinity, mask in ends.items() if mask.bit_count() == fewest}
        self.masks = self._end_of.values()

    def _options(self, at: int, key: int | None) -> Iterator[tuple[NUMATopologyHint, int | None]]:
        for hint in self.lists[at]:
            if not hint.preferred:
                continue
            if hint.affinity is None or hint.affinity == key:
                yield hint, key
            elif key is None and hint.affinity in self._end_of:
                yield hint, hint.affinity

    def _settled(self, at: int, key: int | None) -> int | None:
        return self._end_of.get(key) if key is not None or at == len(self.lists) else None


class _OtherSearch(_Search):
    """All choices, none of which is preferred; the key is the mask that the hints chosen have in common."""

    preferred = False

    def __init__(self, everything: int, lists: Sequence[Hints]) -> None:
        super().__init__(everything, lists)
        self.start = everything
        affinities = tuple(
            frozenset(everything if hint.affinity is None else hint.affinity & everything for hint in hints)
            for hints in lists
        )
        self._meets = _meets((everything, affinities))
        fewest = min((mask.bit_count() for mask in self._meets[0] if mask), default=0)
        self.masks = {mask for mask in self._meets[0] if mask and mask.bit_count() == fewest}
        if fewest == everything.bit_count():
            self.best = NUMATopologyHint(everything)  # this is where the rule starts
        self._leads: dict[tuple[int, int], bool] = {}

    def _options(self, at: int, key: int | None) -> Iterator[tuple[NUMATopologyHint, int | None]]:
        assert key is not None
        for hint in self.lists[at]:
            following = key if hint.affinity is None else key & hint.affinity
            if following and self._leads_on(at + 1, following):
                yield hint, following

    def _leads_on(self, at: int, key: int) -> bool:
        known = self._leads.get((at, key))
        if known is None:
            known = self._leads[at, key] = any(key & mask in self.masks for mask in self._meets[at])
        return known

    def _settled(self, at: int, key: int | None) -> int | None:
        return key if key in self.masks else None


def _shared(lists: Sequence[Hints]) -> set[int | None]:
    """Return the affinities that preferred hints of all lists can have together; None stands for no affinity.

    A hint without affinity is compatible with any.
    """
    shared: set[int | None] | None = None
    seen: set[int | None] = {None}
    for hints in lists:
        affinities = {hint.affinity for hint in hints if hint.preferred}
        seen |= affinities
        if None not in affinities:
            shared = affinities if shared is None else shared & affinities
    return seen if shared is None else shared


@cached("numa_affinities", 2 << 20)
def _meets(offers: tuple[int, tuple[frozenset[int], ...]]) -> tuple[frozenset[int], ...]:
    """Return, for each list and past the end, what choices from there on may have in common.

    Cached because nodes of one shape offer the same masks, regardless of scores.
    """
    everything, affinities = offers
    meets = frozenset((everything,))
    result = [meets]
    for masks in reversed(affinities):
        meets = frozenset(mask & meet for mask in masks for meet in meets)
        result.append(meets)
    return tuple(result[::-1])
