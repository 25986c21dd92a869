"""Groups of equal rows of a table of integers."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

_MOST = 1 << 62
_CELLS = 4
"""Numbers of rows with at most so many values for each row are counted in a table instead of sorted."""


def group(columns: Iterable[NDArray[Any]], count: int) -> tuple[Int64, Int64]:
    """Return the group (n,) of each of `count` rows, and the first row (groups,) of each group.

    Rows are equal if all columns (n,) are equal. Columns are packed into one number as far as it has room;
    where it has not, what was packed before is numbered.
    """
    packed, span = np.zeros(count, np.int64), 1
    if not count:
        return packed, packed
    for column in columns:
        values = column.astype(np.int64)
        least, most = int(values.min()), int(values.max())
        if least == most:
            continue
        width = most - least + 1
        if width > _MOST // count:
            values, least = np.unique(values, return_inverse=True)[1], 0
            width = int(values.max()) + 1
        if span > _MOST // width:
            packed = np.unique(packed, return_inverse=True)[1]
            span = int(packed.max()) + 1
        packed = packed * width + (values - least)
        span *= width
    if span <= _CELLS * count:
        return _counted(packed, span)
    _, first, groups = np.unique(packed, return_index=True, return_inverse=True)
    return groups.astype(np.int64), first.astype(np.int64)


def _counted(numbers: Int64, span: int) -> tuple[Int64, Int64]:
    """Do the same for numbers from 0 to `span` - 1."""
    firsts = np.full(span, -1)
    firsts[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # of equal numbers the last one counts
    known = np.flatnonzero(firsts >= 0)
    groups = np.empty(span, np.int64)
    groups[known] = np.arange(len(known))
    return groups[numbers], firsts[known]
