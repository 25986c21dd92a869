"""The utilization of a node as a score. Pure array functions.

Source: Kubernetes, `framework/plugins/noderesources` (`least_allocated.go`, `most_allocated.go`,
`requested_to_capacity_ratio.go`).
"""

from collections.abc import Callable, Sequence

import numpy as np

from koordpy.cluster.columns import Int64

Scorer = Callable[[Int64, Int64], Int64]
"""(n,) requested with the pod, (n,) capacity above 0 -> (n,) score 0..100 of one resource."""


def least_allocated(requested: Int64, capacity: Int64) -> Int64:
    """Score the free share, 0 when the requests exceed the capacity."""
    score: Int64 = np.maximum(capacity - requested, 0) * 100 // capacity
    return score


def most_allocated(requested: Int64, capacity: Int64) -> Int64:
    """Score the used share."""
    return np.minimum(requested, capacity) * 100 // capacity


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Scorer:
    """Return a scorer that interpolates (utilization 0..100, score 0..100) points."""
    utilizations = np.array([utilization for utilization, _ in shape], np.int64)
    scores = np.array([score for _, score in shape], np.int64)

    def scorer(requested: Int64, capacity: Int64) -> Int64:
        utilization = np.where(requested > capacity, 100, requested * 100 // capacity)
        at = np.searchsorted(utilizations, utilization, side="left")
        right = np.minimum(at, len(shape) - 1)
        left = np.maximum(right - 1, 0)
        rise = (scores[right] - scores[left]) * (utilization - utilizations[left])
        run = np.maximum(utilizations[right] - utilizations[left], 1)
        between = scores[left] + np.sign(rise) * (np.abs(rise) // run)
        score: Int64 = np.where(at == 0, scores[0], np.where(at == len(shape), scores[-1], between))
        return score

    return scorer


def weighted_mean(
    parts: Sequence[tuple[Int64, Int64, int]], scorer: Scorer, *, drop_zeros: bool = False
) -> Int64:
    """Return (n,) the weighted mean over (requested, capacity, weight) of several resources.

    A resource that a node lacks is omitted. With `drop_zeros` (RequestedToCapacityRatio) scores of 0 are
    omitted too and the mean is rounded half up, otherwise it is truncated.
    """
    if not drop_zeros and all(
        np.count_nonzero(capacity > 0) == len(capacity) for _, capacity, _ in parts
    ):  # usual clusters
        weighted: Int64 = np.add.reduce([scorer(used, capacity) * weight for used, capacity, weight in parts])
        return weighted // max(sum(weight for _, _, weight in parts), 1)
    size = len(parts[0][0])
    total, weights = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for requested, capacity, weight in parts:
        has = capacity > 0
        score = scorer(requested, np.where(has, capacity, 1))
        counted = has & (score > 0) if drop_zeros else has
        total += np.where(counted, score * weight, 0)
        weights += np.where(counted, weight, 0)
    divisor = np.maximum(weights, 1)
    if drop_zeros:
        return np.floor(total / divisor + 0.5).astype(np.int64)
    return total // divisor
