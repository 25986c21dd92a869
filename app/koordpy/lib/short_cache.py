"""A cache of answers about texts that remembers no long ones.

What clients send is asked about again and again, so answers are worth keeping; but a cache that is bounded by
the number of its texts is not bounded by their length, and a caller who may send megabytes could fill it.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")

LONGEST = 320
"""Characters; a name with a prefix, the longest text that is usual, has 317."""


def short_cache(maxsize: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Keep a function's answers about the last `maxsize` texts of up to `LONGEST` characters."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize)(function)

        @wraps(function)
        def ask(text: str) -> T:
            return cached(text) if len(text) <= LONGEST else function(text)

        return ask

    return decorate
