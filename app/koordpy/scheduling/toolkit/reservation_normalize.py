"""Normalises the scores of the reservations of a node to 0..100, as Koordinator's helper does."""

from collections.abc import Sequence

import numpy as np

from koordpy.cluster.columns import Int64
from koordpy.lib import runs
from koordpy.scheduling.interface import MAX_NODE_SCORE


def default_normalize(
    scores: Sequence[int], *, highest: int = MAX_NODE_SCORE, reverse: bool = False
) -> list[int]:
    """Scale the scores of one node so that the largest becomes `highest`; with `reverse` it becomes 0."""
    found, first = np.array(scores, np.int64), np.zeros(1, np.int64)
    return [int(score) for score in normalize_of_nodes(found, first, highest=highest, reverse=reverse)]


def normalize_of_nodes(
    scores: Int64, first: Int64, *, highest: int = MAX_NODE_SCORE, reverse: bool = False
) -> Int64:
    """Do the same for the scores (k,) of many nodes; `first` (g,) has the start of each node's scores."""
    if not len(scores):
        return scores
    largest = np.maximum(np.maximum.reduceat(scores, first), 0)
    largest = np.repeat(largest, runs.sizes(first, len(scores)))
    scaled = np.sign(scores) * (np.abs(scores) * highest // np.maximum(largest, 1))  # truncate toward zero
    if reverse:
        return highest - np.where(largest == 0, 0, scaled)
    return np.where(largest == 0, scores, scaled)
