"""Which GPUs of a node are near each other: a search in the tree of their places.

The deepest scope that can give all GPUs wins, then the one in the most scopes that are in use already.
Source: Koordinator, `pkg/scheduler/plugins/deviceshare/allocator_gpu.go` (allocateFromScope).
"""

from dataclasses import dataclass

from ..scoring import Scorer
from ..state import minors
from ..state.exact import Exact, is_zero, within_known
from ..state.gpu_topology import LEVELS, Scope
from .requests import GPURequirements
from .view import TypeView

_NOTHING: Exact = {}


@dataclass(frozen=True, slots=True)
class _Found:
    """GPUs of one scope; `rank` is its depth and how many scopes on its path are in use."""

    minors: tuple[int, ...]
    rank: tuple[int, int]
    score: int


class TopologySearch:
    """One search: what fits is found out once for each GPU."""

    def __init__(self, view: TypeView, used: int, wanted: GPURequirements, scorer: Scorer | None) -> None:
        self._view = view
        self._used = used
        self._wanted = wanted
        self._level = LEVELS.get(wanted.required_scope, 0)
        self._scorer = scorer if wanted.shared else None
        self._scores: dict[int, int | None] = {}

    def search(self, root: Scope) -> tuple[int, ...] | None:
        """Return the minors of the best scope, ascending; None if no scope has enough GPUs."""
        found = self._search(root, 0, 0)
        return None if found is None else found.minors

    def _search(self, scope: Scope, depth: int, in_use: int) -> _Found | None:
        if len(scope.minors) < self._wanted.count:
            return None
        depth += 1
        in_use += minors.overlap(scope.bits, self._used)
        best: _Found | None = None
        for child in scope.children:
            found = self._search(child, depth, in_use)
            if found is not None and (best is None or self._is_better(found, best)):
                best = found
        if best is not None:
            return best
        if self._level > scope.level:
            return None
        chosen, score = self._best_of(scope) if self._wanted.shared else self._first_of(scope)
        return _Found(chosen, (depth, in_use), score) if chosen else None

    def _is_better(self, found: _Found, best: _Found) -> bool:
        if found.rank != best.rank:
            return found.rank > best.rank
        return self._wanted.shared and found.score > best.score

    def _first_of(self, scope: Scope) -> tuple[tuple[int, ...], int]:
        """Return the lowest minors that fit, none if there are too few."""
        chosen: list[int] = []
        for minor in scope.minors:
            if self._score(minor, scope) is not None:
                chosen.append(minor)
                if len(chosen) == self._wanted.count:
                    return tuple(chosen), -1
        return (), -1

    def _best_of(self, scope: Scope) -> tuple[tuple[int, ...], int]:
        """Return the one GPU of the highest score."""
        chosen: tuple[int, ...] = ()
        best = -1
        for minor in scope.minors:
            score = self._score(minor, scope)
            if score is not None and score > best:
                chosen, best = (minor,), score
        return chosen, best

    def _score(self, minor: int, scope: Scope) -> int | None:
        """Return the score of a GPU, None if it does not fit."""
        if minor not in self._scores:
            self._scores[minor] = self._compute(minor, scope)
        return self._scores[minor]

    def _compute(self, minor: int, scope: Scope) -> int | None:
        free = self._view.free.get(minor, _NOTHING)
        if is_zero(self._view.total.get(minor, _NOTHING)) or not within_known(self._wanted.exact, free):
            return None
        if self._scorer is None:
            return 0
        # Koordinator takes the total for the free amount here, and the free amount for the total.
        return self._scorer.of_device(self._wanted.exact, free, scope.totals.get(minor, _NOTHING))
