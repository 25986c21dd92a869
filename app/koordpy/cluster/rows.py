"""Maps node names to rows, which are reused."""

from collections.abc import Sequence

import numpy as np

from .columns import Int64


class Rows:
    """Names, their rows, and the free rows."""

    def __init__(self, capacity: int) -> None:
        self._rows: dict[str, int] = {}
        self._names: list[str | None] = [None] * capacity
        self._free = list(range(capacity - 1, -1, -1))
        self._compact: dict[str, int] | None = None

    @property
    def capacity(self) -> int:
        """The number of rows, free ones included."""
        return len(self._names)

    @property
    def are_used_up(self) -> bool:
        """Whether no row is free."""
        return not self._free

    def get(self, name: str) -> int | None:
        """Return the row of a name, None if it has none."""
        return self._rows.get(name)

    def name_of(self, row: int) -> str:
        """Return the name that has a row. Raises KeyError for a free one."""
        name = self._names[row]
        if name is None:
            raise KeyError(f"row {row} of the node table is free")
        return name

    def find(self, names: Sequence[str]) -> Int64:
        """(n,) the rows of names, -1 for names that have none.

        Thousands of names are looked up in a copy whose names and numbers are adjacent in memory: the
        original ones are scattered, and reading them takes twice as long.
        """
        if self._compact is None:
            self._compact = {name.encode().decode(): row + 0 for name, row in self._rows.items()}
        try:
            return np.fromiter(map(self._compact.__getitem__, names), np.int64, len(names))
        except KeyError:
            return np.fromiter((self._rows.get(name, -1) for name in names), np.int64, len(names))

    def claim(self, name: str) -> int:
        """Assign a free row to a name that has none. Raises IndexError if no row is free."""
        row = self._rows[name] = self._free.pop()
        self._names[row] = name
        self._compact = None
        return row

    def release(self, row: int) -> None:
        """Release the row of a name."""
        del self._rows[self.name_of(row)]
        self._names[row] = None
        self._free.append(row)
        self._compact = None

    def grow(self, more: int) -> None:
        """Add free rows at the end."""
        end = self.capacity + more
        self._free[:0] = range(end - 1, self.capacity - 1, -1)
        self._names.extend([None] * more)
