"""Rows of columns that many nodes share: equal rows are stored once."""

from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from koordpy.cluster.columns import Column, Int64

_DIGEST_BYTES: Final = 16
_SLACK: Final = 64


class SharedRows:
    """Row 0 has the fill value of every column. A new row is written at `spare`, clean until then."""

    def __init__(self) -> None:
        self._columns: list[Column] = []
        self._rows: dict[bytes, int] = {}
        self._digests: dict[int, bytes] = {}
        self._unused: list[int] = []
        self._capacity = 2
        self._most = _SLACK
        self.spare = 1

    def __len__(self) -> int:
        return len(self._rows)

    def add_column(self, width: int = 0, dtype: DTypeLike = np.int64, fill: Any = 0) -> Column:
        """Add a column, of scalars or of `width` cells a row, before any row is written."""
        column = Column(self._capacity, width, dtype, fill)
        self._columns.append(column)
        return column

    def settle(self) -> int:
        """Return the row that equals the one written at `spare`, which may be that one."""
        key = blake2b(digest_size=_DIGEST_BYTES)
        for column in self._columns:
            key.update(column.values[self.spare].tobytes())
        digest = key.digest()
        row = self._rows.setdefault(digest, self.spare)
        if row == self.spare:
            self._digests[row] = digest
            self.spare = self._next()
        else:
            self._reset(self.spare)
        return row

    def digest(self, row: int) -> bytes:
        """Return what only rows with the same cells have; empty for row 0."""
        return self._digests.get(row, b"")

    def tidy(self, used: Int64) -> None:
        """Forget all rows but those in `used`, once that frees many."""
        if len(self._rows) <= self._most:
            return
        kept = frozenset(used.tolist())
        for key, row in list(self._rows.items()):
            if row not in kept:
                del self._rows[key], self._digests[row]
                self._reset(row)
                self._unused.append(row)
        self._most = 2 * len(self._rows) + _SLACK

    def _next(self) -> int:
        if not self._unused:
            self._unused = list(range(2 * self._capacity - 1, self._capacity - 1, -1))
            self._capacity *= 2
            for column in self._columns:
                column.grow(self._capacity)
        return self._unused.pop()

    def _reset(self, row: int) -> None:
        for column in self._columns:
            column.reset(row)
