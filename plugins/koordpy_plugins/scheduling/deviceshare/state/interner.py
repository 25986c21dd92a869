"""Small numbers for values that many nodes share."""

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

V = TypeVar("V", bound=Hashable)

_MOST: Final = 256


class Interner(Generic[V]):
    """Numbers in order of appearance. Values are never forgotten, so there are at most `most`."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._ids: dict[V, int] = {}
        self._values: list[V] = []

    def id_of(self, value: V) -> int | None:
        """Return the number of a value, None for a new one if there are too many."""
        known = self._ids.get(value)
        if known is None and len(self._values) < self._most:
            known = self._ids[value] = len(self._values)
            self._values.append(value)
        return known

    def value_of(self, number: int) -> V:
        """Return the value of a number."""
        return self._values[number]

    def __iter__(self) -> Iterator[V]:
        """Yield the values in the order of their numbers."""
        return iter(self._values)
