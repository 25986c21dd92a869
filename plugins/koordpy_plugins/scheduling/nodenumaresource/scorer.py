"""Scores by utilization, of nodes and of NUMA nodes.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource` (`scoring.go`, `least_allocated.go`,
`most_allocated.go`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from koordpy.api.quantity import Quantity
from koordpy.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from koordpy.lib import int64
from koordpy.scheduling.interface import MAX_NODE_SCORE
from koordpy.scheduling.toolkit.scoring_strategy import ScoringStrategy

from .cpus import policies

Amount = Callable[[str], int]
"""An amount by resource: cpu in thousandths, others in whole numbers, 0 if there is none."""

_PLAIN = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores by the weights of resources, preferring the most or the least utilization."""

    prefers_most: bool
    weights: Mapping[str, int]

    @classmethod
    def of(cls, type_: str, resources: ScoringStrategy) -> "Scorer":
        """Return a scorer of a type with the weights of a strategy."""
        return cls(type_ == policies.MOST_ALLOCATED, {spec.name: spec.weight for spec in resources.resources})

    def score(self, requested: Amount, allocatable: Amount, pod: Amount) -> int:
        """Return 0 to 100 for what is requested already, what there is, and what the pod requests.

        Extended resources that the pod does not request, and resources that there are not, do not count.
        Amounts that no node has, of absurd ratios, score 0 or 100.
        """
        total = weights = 0
        for name, weight in self.weights.items():
            wanted, capacity = pod(name), allocatable(name)
            if capacity == 0 or not self.counts(name, wanted):
                continue
            total += weight * self._of_resource(requested(name) + wanted, capacity)
            weights += weight
        return max(0, min(total // weights, MAX_NODE_SCORE)) if weights else 0

    @staticmethod
    def counts(name: str, wanted: int) -> bool:
        """Return whether a resource counts for a pod that requests so much of it."""
        return wanted != 0 or name in _PLAIN

    def _of_resource(self, requested: int, capacity: int) -> int:
        if self.prefers_most:
            return int64.quotient(min(requested, capacity) * MAX_NODE_SCORE, capacity)
        if requested > capacity:
            return 0
        return int64.quotient((capacity - requested) * MAX_NODE_SCORE, capacity)


def amounts_of(amounts: Mapping[str, Quantity]) -> Amount:
    """Return the amounts of a resource list."""

    def amount(name: str) -> int:
        quantity = amounts.get(name)
        if quantity is None:
            return 0
        return quantity.milli_value() if name == CPU else quantity.value()

    return amount
