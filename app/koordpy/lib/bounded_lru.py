"""A map of the most recently used entries, bounded in bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from .byte_budget import ByteBudget

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedLru(Generic[K, V]):
    """Entries whose sizes are given, the least recently used of which go first.

    `dropped` is called with each entry that had to go, but not for those that were removed.
    """

    def __init__(
        self,
        name: str,
        max_bytes: int,
        *,
        max_entries: int | None = None,
        dropped: Callable[[K, V], None] | None = None,
    ) -> None:
        self._budget = ByteBudget(name, max_bytes)
        self._max_entries, self._dropped = max_entries, dropped
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    @property
    def largest(self) -> int:
        """Bytes of the largest entry that is kept."""
        return self._budget.largest

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[V]:
        """Yield the values, the least recently used first."""
        return (value for value, _ in self._entries.values())

    def items(self) -> list[tuple[K, V]]:
        """Return keys and values, the least recently used first; the map may change meanwhile."""
        return [(key, value) for key, (value, _) in self._entries.items()]

    def get(self, key: K) -> V | None:
        """Return the value of a key, which is now the most recently used one."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def peek(self, key: K) -> V | None:
        """Return the value of a key, which does not count as a use."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def put(self, key: K, value: V, size: int) -> bool:
        """Keep a value of `size` bytes in place of the key's earlier one; return whether it was kept.

        It is not if it is too large for a share of the budget.
        """
        self.pop(key)
        if size > self._budget.largest:
            return False
        self._entries[key] = value, size
        self._budget.add(size)
        self._make_space()
        return True

    def resize(self, key: K, size: int) -> None:
        """Correct the size of an entry, if it is kept."""
        entry = self._entries.get(key)
        if entry is not None:
            self._budget.held += size - entry[1]
            self._entries[key] = entry[0], size
            self._make_space()

    def pop(self, key: K) -> V | None:
        """Remove an entry; return its value, None if there is none."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._budget.remove(entry[1])
        return entry[0]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._budget.held = self._budget.entries = 0

    def _make_space(self) -> None:
        while self._budget.is_exceeded or len(self._entries) > (self._max_entries or len(self._entries)):
            key, (value, size) = self._entries.popitem(last=False)
            self._budget.remove(size)
            if self._dropped is not None:
                self._dropped(key, value)
