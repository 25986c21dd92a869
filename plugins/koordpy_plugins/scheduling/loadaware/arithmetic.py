"""Percentages and scores over arrays, with the rounding and the 64-bit arithmetic of Go."""

import numpy as np
from numpy.typing import NDArray

from koordpy.cluster.columns import Int64

_OUT_OF_INT64 = 9223372036854775808.0


def any_resource(cells: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (n,) whether any of a row's few cells (n, r) is not 0; NumPy's own is slow on short rows."""
    found: NDArray[np.bool_] = cells[:, 0] != 0
    for column in range(1, cells.shape[1]):
        found |= cells[:, column] != 0
    return found


def percent(used: Int64, capacity: Int64) -> Int64:
    """Return (n, r) usage in percent of capacity (both (n, r)), 0 where there is no capacity.

    Divides first, then multiplies, and rounds halves away from zero; a value that overflows 64 bits becomes
    the smallest integer, as on amd64.
    """
    has = capacity != 0
    exact = used.astype(np.float64) / np.where(has, capacity, 1) * 100
    whole = np.trunc(exact)
    rounded = whole + np.where(np.abs(exact - whole) >= 0.5, np.copysign(1.0, exact), 0.0)
    fits = np.abs(rounded) < _OUT_OF_INT64
    if not fits.all():
        rounded = np.where(fits, rounded, -_OUT_OF_INT64)
    percents: Int64 = np.where(has, rounded, 0.0).astype(np.int64)
    return percents


def least_used_score(used: Int64, capacity: Int64, weights: Int64, dominant: int) -> Int64:
    """Return (n,) scores 0..100 from used and capacity (n, r), weights (r,) and the dominant weight.

    A resource scores its free share, 0 without capacity or when usage exceeds capacity. The
    dominant weight multiplies the smallest of these scores, also of resources without a weight.
    """
    if np.count_nonzero(capacity) == capacity.size and not np.count_nonzero(used > capacity):
        by_resource = _truncated((capacity - used) * 100, capacity)  # as of nearly all nodes
    else:
        free = np.where((capacity == 0) | (used > capacity), 0, capacity - used) * 100
        by_resource = _truncated(free, np.where(capacity == 0, 1, capacity))
    total = by_resource @ weights
    total_weight = int(weights.sum()) + dominant
    if dominant:
        total = total + np.minimum.reduce([*by_resource.T, np.full(len(total), 100)]) * dominant
    if total_weight <= 0:
        return np.zeros(len(total), np.int64)
    return _truncated(total, np.int64(total_weight))


def _truncated(dividend: Int64, divisor: Int64 | np.int64) -> Int64:
    quotient: Int64 = dividend // divisor
    if np.count_nonzero(dividend < 0):
        quotient = quotient + ((quotient < 0) & (quotient * divisor != dividend))
    return quotient
