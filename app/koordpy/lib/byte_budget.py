"""What the caches and histories of this process hold, in bytes.

Tenants and callers determine what caches and histories hold, so a bound on the number of entries bounds
nothing. Each has a budget of bytes instead, which is registered here under a name, so that the metrics can
report all of them. Sizes are estimates of the memory that an entry would free.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from weakref import WeakSet

SHARE = 8
"""One entry may take this part of a budget; larger ones are not kept."""

_budgets: "WeakSet[ByteBudget]" = WeakSet()
_lock = Lock()


class ByteBudget:
    """The bytes that one cache or history may hold, and those that it holds. It is counted while it lives."""

    __slots__ = ("__weakref__", "entries", "held", "largest", "limit", "name")

    def __init__(self, name: str, limit: int, largest: int | None = None) -> None:
        if limit < SHARE:
            raise ValueError(f"cache {name}: a budget of {limit} bytes, expected at least {SHARE}")
        self.name, self.limit = name, limit
        self.largest = limit // SHARE if largest is None else largest
        """Bytes of the largest entry that is kept."""
        self.held = self.entries = 0
        with _lock:
            _budgets.add(self)

    @property
    def is_exceeded(self) -> bool:
        """Whether entries must go."""
        return self.held > self.limit

    def add(self, size: int, entries: int = 1) -> None:
        """Count entries of `size` bytes together."""
        self.held += size
        self.entries += entries

    def remove(self, size: int, entries: int = 1) -> None:
        """Stop counting entries."""
        self.held -= size
        self.entries -= entries


@dataclass(slots=True)
class Usage:
    """The bytes and entries of all caches of one name, and the bytes that they may hold."""

    held: int = 0
    entries: int = 0
    limit: int = 0


def usage() -> Mapping[str, Usage]:
    """Return what is held, by the names of caches and histories."""
    with _lock:
        budgets = list(_budgets)
    found: dict[str, Usage] = {}
    for budget in sorted(budgets, key=lambda budget: budget.name):
        total = found.setdefault(budget.name, Usage())
        total.held += budget.held
        total.entries += budget.entries
        total.limit += budget.limit
    return found
