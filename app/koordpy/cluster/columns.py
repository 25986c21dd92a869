"""Arrays with a row per node, and which resource is in which column of them."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = range(4)
"""Columns that every table has: milli-CPU, bytes, bytes, number of pods."""

_FIRST_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")


class ResourceAxis:
    """Which resource is in which column. Columns are only ever added."""

    def __init__(self) -> None:
        self.names: list[str] = list(_FIRST_RESOURCES)
        self._index = {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def get(self, name: str) -> int | None:
        """Return a resource's column, or None if no node or pod has ever named it."""
        return self._index.get(name)

    def add(self, name: str) -> int:
        """Return a resource's column, making one for a new name."""
        column = self._index.get(name)
        if column is None:
            column = self._index[name] = len(self.names)
            self.names.append(name)
        return column

    def named(self, amounts: Int64) -> dict[str, int]:
        """Return the amounts (resources,) that are not 0 by the names of their columns."""
        return {name: amount for name, amount in zip(self.names, amounts.tolist(), strict=False) if amount}


class Column:
    """One array with a row per node. `values` is replaced when the table grows: read it afresh each time.

    `cells` is the same memory: one cell is read and written there in half the time.
    """

    def __init__(self, rows: int, width: int, dtype: DTypeLike, fill: Any) -> None:
        self.width, self.fill = width, fill
        self._take(np.full((rows, width) if width else rows, fill, dtype))

    def _take(self, values: NDArray[Any]) -> None:
        self.values = values
        self.cells = memoryview(values)  # type: ignore[arg-type]

    def reset(self, row: int) -> None:
        """Set a row back to the fill value."""
        self.values[row] = self.fill

    def grow(self, rows: int) -> None:
        """Add rows at the end."""
        shape = (rows - len(self.values), self.width) if self.width else (rows - len(self.values),)
        self._take(np.concatenate([self.values, np.full(shape, self.fill, self.values.dtype)]))

    def widen(self, width: int) -> None:
        """Add cells at the end of every row (columns made with a width only)."""
        if width > self.width:
            more = np.full((len(self.values), width - self.width), self.fill, self.values.dtype)
            self._take(np.concatenate([self.values, more], axis=1))
            self.width = width
