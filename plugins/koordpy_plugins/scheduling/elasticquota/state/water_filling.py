"""Distributes one resource of a quota to its children.

Every child gets its floor (the scaled minimum, or what is guaranteed to it), or only what it requests if it
lends the rest. What is left goes to the children that request more, in proportion to their weights, by the
method of largest remainders, until their requests are met or nothing is left. Arithmetic is that of Go's
64-bit integers, with 128-bit products. Pools of many children are computed with arrays where these are exact.

Source: Koordinator, `runtime_quota_calculator.go` (`redistribution`, `computeHamiltonDeltas`).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from koordpy.lib import int64

Int64 = NDArray[np.int64]

WEIGHT, REQUEST, MIN, GUARANTEE, LENDS = range(5)
"""The columns of a pool."""

ARRAYS_FROM: Final = 48
"""The number of children from which arrays are faster than a loop."""

_SMALL: Final = 1 << 62


class Pool:
    """The children of a quota in one resource, as rows in no order.

    `runtime` of a row is what the last `distribute` gave it.
    """

    __slots__ = ("_arrays", "_by_name", "columns", "is_dirty", "names", "rows", "runtime", "total")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.rows: dict[str, int] = {}
        self.columns: tuple[list[int], ...] = ([], [], [], [], [])
        self.runtime: list[int] = []
        self.total = 0
        self.is_dirty = True
        self._arrays: Int64 | None = None
        self._by_name: Int64 | None = None

    def insert(self, name: str, values: tuple[int, int, int, int, int]) -> None:
        """Add a child that the pool does not have."""
        self.rows[name] = len(self.names)
        self.names.append(name)
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        self.runtime.append(0)
        self._arrays = self._by_name = None
        self.is_dirty = True

    def put(self, name: str, values: tuple[int, int, int, int, int]) -> None:
        """Set all values of a child, which the pool may not have yet."""
        if name not in self.rows:
            self.insert(name, values)
            return
        for column, value in enumerate(values):
            self.set(name, column, value)

    def remove(self, name: str) -> None:
        """Remove a child; unknown names are ignored."""
        row = self.rows.pop(name, None)
        if row is None:
            return
        last = self.names.pop()
        lists = (*self.columns, self.runtime)
        if last != name:
            self.names[row], self.rows[last] = last, row
            for values in lists:
                values[row] = values[-1]
        for values in lists:
            values.pop()
        self._arrays = self._by_name = None
        self.is_dirty = True

    def set(self, name: str, column: int, value: int) -> None:
        """Change a value of a child."""
        row, values = self.rows[name], self.columns[column]
        if values[row] != value:
            values[row] = value
            if self._arrays is not None:
                self._arrays[column, row] = value
            self.is_dirty = True

    def set_total(self, total: int) -> None:
        """Change what there is to distribute."""
        self.is_dirty = self.is_dirty or total != self.total
        self.total = total

    def distribute(self) -> None:
        """Compute the runtime of all children, unless nothing has changed since the last time."""
        if not self.is_dirty:
            return
        self.is_dirty = False
        found = self._with_arrays() if len(self.names) >= ARRAYS_FROM else None
        self.runtime = by_loop(self.names, self.columns, self.total) if found is None else found

    def _with_arrays(self) -> list[int] | None:
        if self._arrays is None:
            self._arrays = np.array(self.columns, np.int64)
            order = sorted(range(len(self.names)), key=self.names.__getitem__)
            self._by_name = np.empty(len(order), np.int64)
            self._by_name[order] = np.arange(len(order))
        assert self._by_name is not None
        found = by_arrays(self._arrays, self._by_name, self.total)
        return None if found is None else found.tolist()


def by_loop(names: list[str], columns: tuple[list[int], ...], total: int) -> list[int]:
    """Return the runtime of every row. Correct for all amounts, also those that overflow."""
    weights, requests, minimums, guarantees, lends = columns
    runtime, need, weight = [], [], 0
    for row, (request, least, guaranteed) in enumerate(zip(requests, minimums, guarantees, strict=True)):
        floor = least if least >= guaranteed else guaranteed
        if request > floor:
            need.append(row)
            weight += weights[row]
            runtime.append(floor)
        else:
            runtime.append(request if lends[row] else floor)
    # Sums that overflow in between are the same in the end.
    left, weight = int64.wrap(total - sum(runtime)), int64.wrap(weight)
    while left > 0 and weight > 0 and need:
        shares = _shares(names, weights, need, left, weight)
        left, weight, rest = 0, 0, []
        for row in need:
            runtime[row] = int64.wrap(runtime[row] + shares.get(row, 0))
            if runtime[row] < requests[row]:
                rest.append(row)
                weight = int64.wrap(weight + weights[row])
            else:
                left = int64.wrap(left + runtime[row] - requests[row])
                runtime[row] = requests[row]
        need = rest
    return runtime


def _shares(names: list[str], weights: list[int], need: list[int], left: int, weight: int) -> dict[int, int]:
    """Divide an amount by weights; what remains after rounding down goes to the largest remainders."""
    shares: dict[int, int] = {}
    ranked: list[tuple[int, str, int]] = []
    residual = left
    for row in need:
        if weights[row] > 0:
            share, remainder = divmod(weights[row] * left, weight)
            shares[row] = share = int64.wrap(share)
            residual = int64.wrap(residual - share)
            ranked.append((-remainder, names[row], row))
    if residual > 0:
        ranked.sort()
        for _, _, row in ranked[:residual]:
            shares[row] += 1
    return shares


def by_arrays(columns: Int64, by_name: Int64, total: int) -> Int64 | None:
    """Return the runtime of every row, or None if 64-bit arrays might not be exact.

    `columns` (5, n) as in `Pool`; `by_name` (n,) is each row's place in the order of names.
    """
    weights, requests, minimums, guarantees, lends = columns
    if not _is_exact(columns, total):
        return None
    floors = np.maximum(minimums, guarantees)
    needs = requests > floors
    runtime: Int64 = np.where(needs | (lends == 0), floors, requests)
    left = total - int(runtime.sum())
    need = np.flatnonzero(needs)
    weight = int(weights[need].sum())
    while left > 0 and weight > 0 and len(need):
        if ((left >> 50) + 8) * weight >= _SMALL:
            return None
        shares = _array_shares(weights[need], by_name[need], left, weight)
        given = runtime[need] + shares
        wanted = requests[need]
        left = int(np.maximum(given - wanted, 0).sum())
        runtime[need] = np.minimum(given, wanted)
        need = need[given < wanted]
        weight = int(weights[need].sum())
    return runtime


def _is_exact(columns: Int64, total: int) -> bool:
    """Return whether no sum can overflow, and no weight is negative."""
    largest = int(max(columns.max(), -columns.min(), 1))
    return (
        largest * (columns.shape[1] + 2) < _SMALL and abs(total) < _SMALL and int(columns[WEIGHT].min()) >= 0
    )


def _array_shares(weights: Int64, by_name: Int64, left: int, weight: int) -> Int64:
    """Divide an amount by weights, with remainders.

    Products need 128 bits. The quotient is estimated with doubles, with an error below (left >> 50) + 4; the
    remainder that goes with it is small enough to be exact modulo 2^64, and corrects it.
    """
    shares = np.floor(weights.astype(np.float64) * float(left) / float(weight)).astype(np.int64)
    with np.errstate(over="ignore"):
        remainders = (
            weights.view(np.uint64) * np.uint64(left) - shares.view(np.uint64) * np.uint64(weight)
        ).view(np.int64)
    correction = remainders // weight
    shares += correction
    remainders -= correction * weight
    residual = left - int(shares.sum())
    if residual > 0:
        ranked = np.flatnonzero(weights > 0)
        order = np.lexsort((by_name[ranked], -remainders[ranked]))
        shares[ranked[order[:residual]]] += 1
    return shares
