"""Usage as one number: of a node to order nodes, of a pod to order a node's pods.

Amounts are integers in any unit; only their ratios matter. Source: Koordinator,
`pkg/descheduler/utils/sorter` (`scorer.go`, `pod.go`).
"""

from collections.abc import Mapping

from koordpy.lib import int64


def node_score(used: Mapping[str, int], capacity: Mapping[str, int], weights: Mapping[str, int]) -> int:
    """Return the weighted mean of used/capacity over the used resources, as an integer from 0 to 1000.

    A resource without capacity counts as unused, one without a weight not at all.
    """
    total = weight_sum = 0
    for name, amount in used.items():
        weight, limit = weights.get(name, 0), capacity.get(name, 0)
        ratio = int64.quotient(min(amount, limit) * 1000, limit) if limit else 0
        total += ratio * weight
        weight_sum += weight
    return int64.quotient(total, weight_sum) if weight_sum else 0


def pod_score(used: Mapping[str, int], exceeding: Mapping[str, int], weights: Mapping[str, int]) -> float:
    """Return how well evicting a pod would remove the excess over its node's thresholds, 0 to 2.

    2 is a pod that uses exactly the excess; bigger pods approach 1, smaller ones 0. Resources that do not
    exceed have no weight.
    """
    total, weight_sum = 0.0, 0
    for name in sorted(used):
        excess, weight = exceeding.get(name, 0), weights.get(name, 0)
        score = 0.0
        if excess:
            ratio = used[name] / excess
            score = 1 / ratio + 1 if ratio >= 1 else ratio
        total += score * weight
        weight_sum += weight
    return total / weight_sum if weight_sum else 0.0
