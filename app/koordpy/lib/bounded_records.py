"""The latest records of something, bounded in bytes and number."""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from .byte_budget import ByteBudget

T = TypeVar("T")


class BoundedRecords(Generic[T]):
    """Records whose sizes are given; the oldest go first. The latest stays, whatever its size."""

    def __init__(self, name: str, max_bytes: int, max_records: int) -> None:
        self._budget = ByteBudget(name, max_bytes)
        self.max_records = max_records
        self._records: deque[tuple[T, int]] = deque()

    def append(self, record: T, size: int) -> None:
        """Add a record of `size` bytes, and forget the oldest ones beyond the bounds."""
        self._records.append((record, size))
        self._budget.add(size)
        while len(self._records) > self.max_records or (self._budget.is_exceeded and len(self._records) > 1):
            _, freed = self._records.popleft()
            self._budget.remove(freed)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[T]:
        """Yield the oldest first."""
        return (record for record, _ in self._records)

    def __reversed__(self) -> Iterator[T]:
        """Yield the newest first."""
        return (record for record, _ in reversed(self._records))
