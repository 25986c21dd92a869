"""A cache of results for texts that excludes long ones.

Clients send the same texts repeatedly, so results are worth caching; but a cache bounded by the number of its
texts is not bounded by their length, and a client that sends megabytes could fill it.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

T = TypeVar("T")

LONGEST = 320
"""Characters; the longest usual text, a name with a prefix, has 317."""


def short_cache(maxsize: int) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """Cache a function's results for the last `maxsize` texts of up to `LONGEST` characters."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        cached = lru_cache(maxsize)(function)

        @wraps(function)
        def ask(text: str) -> T:
            return cached(text) if len(text) <= LONGEST else function(text)

        return ask

    return decorate
