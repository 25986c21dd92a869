"""The scorer over arrays: what `Scorer.score` gives, for many nodes at once."""

from collections.abc import Callable

import numpy as np

from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import MAX_NODE_SCORE

from ..scorer import Scorer


def scores(
    scorer: Scorer,
    count: int,
    column: Callable[[str], tuple[Int64, Int64]],
    wanted: Callable[[str], Int64],
) -> Int64:
    """(count,) scores of 0 to 100.

    `column` returns (count,) what is requested of a resource already, and what there is, which is never
    negative; `wanted` (count,) what the pod requests.
    """
    total, weights = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for name, weight in scorer.weights.items():
        asked = wanted(name)
        if not len(asked) or not scorer.counts(name, int(asked[0])):
            continue
        requested, capacity = column(name)
        used = requested + asked
        there = np.where(capacity == 0, 1, capacity)
        part = np.minimum(used, capacity) if scorer.prefers_most else np.maximum(capacity - used, 0)
        share = np.sign(part) * (np.abs(part) * MAX_NODE_SCORE // there)
        total += np.where(capacity == 0, 0, weight * share)
        weights += np.where(capacity == 0, 0, weight)
    found: Int64 = np.where(weights == 0, 0, total // np.maximum(weights, 1))
    return found


def of_nodes(nodes: NodeSet, name: str) -> tuple[Int64, Int64]:
    """(n,) what pods request of a resource on whole nodes, and what the nodes have."""
    at = nodes.table.resources.get(name)
    if at is None:
        nothing = np.zeros(len(nodes), np.int64)
        return nothing, nothing
    return nodes.requested(at), nodes.allocatable(at)
