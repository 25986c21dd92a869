"""Normalises raw scores to 0..100 as kube-scheduler's helper does."""

import numpy as np
from numpy.typing import NDArray

from koordpy.scheduling.interface import MAX_NODE_SCORE


def default_normalize(scores: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Scale non-negative scores (n,) so that the largest becomes 100; with `reverse` it becomes 0.

    Divisions truncate. When all are 0 they stay 0, or become 100 with `reverse`.
    """
    largest = int(scores.max(initial=0)) if np.count_nonzero(scores) else 0
    if largest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = scores * MAX_NODE_SCORE // largest
    return MAX_NODE_SCORE - scaled if reverse else scaled
