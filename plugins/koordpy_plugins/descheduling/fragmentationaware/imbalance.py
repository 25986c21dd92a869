"""How unevenly the resources of a node are requested.

Source: Koordinator, `pkg/descheduler/framework/plugins/fragmentationaware/scoring.go`.
"""

import math
from collections.abc import Mapping, Sequence

from koordpy.api import quantity
from koordpy.api.core import Node, Pod
from koordpy.descheduling.toolkit.node_fit import NodeFit

PODS = "pods"

_MILLI = 1_000_000
_UNIT = 1_000_000_000


class RequestedFractions:
    """Which fraction of each resource the pods of a node request; resources that the node lacks are left out.

    The sums are exact; the statistic is in floating point, over the resources in the given order.
    """

    def __init__(self, node: Node, pods: Sequence[Pod], resources: Sequence[str], fit: NodeFit) -> None:
        self._allocatable = {
            name: _milli(amount)
            for name in resources
            if (amount := quantity.nano_value(node.status.allocatable.get(name, 0)))
        }
        self._resources = [name for name in resources if name in self._allocatable]
        self._total = dict.fromkeys(self._allocatable, 0)
        self._by_uid: dict[str, dict[str, int]] = {}
        for pod in pods:
            requests = fit.requests_of(pod)
            amounts = {name: _UNIT if name == PODS else requests.get(name, 0) for name in self._allocatable}
            _add(self._total, amounts)
            _add(self._by_uid.setdefault(pod.metadata.uid, dict.fromkeys(amounts, 0)), amounts)

    def deviation(self) -> float:
        """Return the standard deviation of the fractions: the imbalance of the node."""
        return self._deviation(self._total)

    def deviation_without(self, pod: Pod) -> float:
        """Return the imbalance without a pod; without a UID, without all pods that have none."""
        taken = self._by_uid.get(pod.metadata.uid, {})
        return self._deviation({name: amount - taken.get(name, 0) for name, amount in self._total.items()})

    def _deviation(self, amounts: Mapping[str, int]) -> float:
        if not self._resources:
            return 0.0
        fractions = [_milli(amounts[name]) / self._allocatable[name] for name in self._resources]
        mean = _sum(fractions) / len(fractions)
        return math.sqrt(_sum([(value - mean) * (value - mean) for value in fractions]) / len(fractions))


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] += amount


def _sum(values: Sequence[float]) -> float:
    """The sum in order, rounded after each addition as in Go; Python's own sum compensates."""
    total = 0.0
    for value in values:
        total += value
    return total


def _milli(nanos: int) -> float:
    return float(-(-nanos // _MILLI))
