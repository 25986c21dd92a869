"""Scores of devices and nodes by utilization.

Amounts are exact billionths, weights and scores plain integers of 64 bits. Source: Koordinator,
`pkg/scheduler/plugins/deviceshare/scoring.go`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from koordpy.lib import int64
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.scoring_strategy import ScoringStrategy

from .state.exact import Exact, whole

_MAX_SCORE = 100


class ScoreError(Exception):
    """A node's devices cannot be scored; the attempt fails."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def scored(score: int, status: Status) -> int:
    """Return a score. Raises ScoreError if there is none."""
    if not status.is_success:
        raise ScoreError(status)
    return score


@dataclass(frozen=True)
class Scorer:
    """Scores what is left of devices: the emptier the better, or (`most_allocated`) the fuller."""

    weights: Mapping[str, int]
    most_allocated: bool = False

    def of_device(self, request: Exact, total: Exact, free: Exact) -> int:
        """Return the score of one device after it gave a request; 0 if it has nothing that is scored."""
        score = weights = 0
        for name, weight in self.weights.items():
            capacity = total.get(name, 0)
            if capacity:
                score += weight * self._of_resource(capacity, free.get(name, 0), request.get(name, 0))
                weights += weight
        return int64.quotient(score, weights) if weights else 0

    def of_node(self, request: Exact, totals: Iterable[Exact], frees: Iterable[Exact]) -> int:
        """Return the score of all devices of a type together, after one of them gave a request."""
        return self.of_device(request, _sum(totals, self.weights), _sum(frees, self.weights))

    def _of_resource(self, total: int, free: int, request: int) -> int:
        capacity = whole(total)
        requested = whole(total - free + request) if total >= free else capacity
        if capacity == 0:
            return 0
        if self.most_allocated:
            counted = min(requested, capacity)
        elif requested > capacity:
            return 0
        else:
            counted = int64.wrap(capacity - requested)
        return int64.quotient(int64.wrap(counted * _MAX_SCORE), capacity)


def make_scorer(strategy: ScoringStrategy) -> Scorer:
    """Return the scorer of a strategy; of a resource that is named twice, the last weight counts."""
    weights = {spec.name: spec.weight for spec in strategy.resources}
    return Scorer(weights, strategy.type == "MostAllocated")


def _sum(devices: Iterable[Exact], names: Iterable[str]) -> dict[str, int]:
    result = dict.fromkeys(names, 0)
    for amounts in devices:
        for name in result:
            result[name] += amounts.get(name, 0)
    return result
