"""Caches of what functions return, bounded in bytes."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

from .byte_budget import ByteBudget
from .deep_size import deep_size

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_NOTHING: Any = object()

_ENTRY = 120
"""Bytes of an entry in a dict with many."""

TEXT_ENTRY = 300
"""Bytes of a usual entry with a short text and a small value."""


def cached(
    name: str,
    max_bytes: int,
    size: Callable[[Any, Any], int] | None = None,
    *,
    keeps_latest: bool = False,
) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Cache what a function of one argument returns, as far as that fits in `max_bytes`.

    Results are shared, so they must not be changed; exceptions are not cached. The least recently used ones
    are forgotten, by halves of the budget; what is too large for a share of it is computed each time. `size`
    estimates the bytes of a key with its value; without it they are measured, which costs about as much as
    computing a small value. With `keeps_latest` the latest result that is too large is kept besides, whatever
    its size: for functions that one attempt calls several times.
    """

    def decorate(function: Callable[[K], V]) -> Callable[[K], V]:
        return BoundedCache(name, max_bytes, function, size, keeps_latest=keeps_latest).get

    return decorate


def text_size(key: object, value: object) -> int:
    """Estimate an entry whose key is a text (or a number), and whose value is small or about as long."""
    return TEXT_ENTRY + 2 * len(key) if isinstance(key, str | bytes) else TEXT_ENTRY


class BoundedCache(Generic[K, V]):
    """The results of a function by its argument; see `cached`.

    `largest` is the size of the largest entry that is kept, by default a share of the budget: measuring ends
    there, so it also bounds the time that an entry costs.

    A hit is one look-up in a dict: instead of an order of use there are two generations. When the younger one
    has used half of the budget it becomes the older one, whose remaining entries are forgotten; an entry of
    the older one that is used comes back to the younger.
    """

    def __init__(
        self,
        name: str,
        max_bytes: int,
        function: Callable[[K], V],
        size: Callable[[Any, Any], int] | None = None,
        largest: int | None = None,
        *,
        keeps_latest: bool = False,
    ) -> None:
        self._function, self._size = function, size or self._measured
        self._budget = ByteBudget(name, max_bytes, largest)
        self._keeps_latest = keeps_latest
        self._latest: tuple[K, V] | None = None
        self._lock = Lock()
        self._young: dict[K, V] = _Results(self._missing)
        self._young_bytes = 0
        self._old: dict[K, Any] = {}
        self.get: Callable[[K], V] = self._young.__getitem__
        """Return the result for an argument. Raises what the function raises."""

    def __len__(self) -> int:
        return self._budget.entries

    def known(self, key: K) -> V | None:
        """Return the result for a key, None if it is not cached."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self._remember(key, found)
        return found

    def setdefault(self, key: K, value: V) -> V:
        """Return the result for a key; without one `value`, which is kept. Not for results that are None."""
        found = self.known(key)
        if found is None:
            self._remember(key, value)
            return value
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._young.clear()
            self._old = {}
            self._latest = None
            self._budget.held = self._budget.entries = self._young_bytes = 0

    def _missing(self, key: K) -> V:
        latest = self._latest
        if latest is not None and latest[0] == key:
            return latest[1]
        value: V = self._old.get(key, _NOTHING)
        if value is _NOTHING:
            value = self._function(key)
        self._remember(key, value)
        return value

    def _remember(self, key: K, value: V) -> None:
        size = self._size(key, value)
        if size <= self._budget.largest:
            with self._lock:
                self._keep(key, value, size)
        elif self._keeps_latest:
            self._latest = key, value

    def _keep(self, key: K, value: V, size: int) -> None:
        if key in self._young:
            return  # another thread was faster, or the function called itself
        if self._young_bytes + size > self._budget.limit // 2:
            self._old = dict(self._young)  # with it what was old goes
            self._young.clear()
            self._budget.held, self._budget.entries = self._young_bytes, len(self._old)
            self._young_bytes = 0
        elif key in self._old:
            del self._old[key]
            self._budget.remove(size)
        self._young[key] = value
        self._young_bytes += size
        self._budget.add(size)

    def _measured(self, key: K, value: V) -> int:
        return _ENTRY + deep_size((key, value), self._budget.largest)


class _Results(dict[K, V]):
    """A dict that computes what is missing; `__getitem__` is as fast as a plain dict's."""

    __slots__ = ("_missing",)

    def __init__(self, missing: Callable[[K], V]) -> None:
        super().__init__()
        self._missing = missing

    def __missing__(self, key: K) -> V:
        return self._missing(key)
