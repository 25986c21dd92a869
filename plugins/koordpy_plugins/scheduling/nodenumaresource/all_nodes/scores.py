"""The scorer over arrays: what `Scorer.score` gives, for many nodes at once."""

from collections.abc import Callable

import numpy as np

from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import MAX_NODE_SCORE

from ..scorer import Scorer


def scores(
    scorer: Scorer,
    shape: int | tuple[int, ...],
    column: Callable[[str], tuple[Int64, Int64]],
    wanted: Callable[[str], Int64],
) -> Int64:
    """(shape) scores of 0 to 100.

    `column` returns (shape) what is requested of a resource already, and what there is, which is never
    negative; `wanted` (n,), of the last axis, what the pod requests.
    """
    total: Int64 | int = 0
    weights: Int64 | int = 0
    for name, weight in scorer.weights.items():
        asked = wanted(name)
        if not len(asked) or not scorer.counts(name, int(asked[0])):
            continue
        requested, capacity = column(name)
        used = requested + asked
        part = np.minimum(used, capacity) if scorer.prefers_most else np.maximum(capacity - used, 0)
        is_there = capacity != 0
        if np.count_nonzero(is_there) == is_there.size:  # as of cpu and memory, which every node has
            total = total + weight * _share(part, capacity)
            weights = weights + weight
        else:
            total = total + np.where(is_there, weight * _share(part, np.maximum(capacity, 1)), 0)
            weights = weights + np.where(is_there, weight, 0)
    found: Int64 = np.zeros(shape, np.int64) + total // np.maximum(weights, 1)
    return found


def _share(part: Int64, capacity: Int64) -> Int64:
    """Return the share of a capacity in hundredths, rounded towards 0."""
    part = part * MAX_NODE_SCORE
    if not np.count_nonzero(part < 0):
        return part // capacity
    return np.sign(part) * (np.abs(part) // capacity)


def of_nodes(nodes: NodeSet, name: str) -> tuple[Int64, Int64]:
    """(n,) what pods request of a resource on whole nodes, and what the nodes have."""
    at = nodes.table.resources.get(name)
    if at is None:
        nothing = np.zeros(len(nodes), np.int64)
        return nothing, nothing
    return nodes.requested(at), nodes.allocatable(at)
