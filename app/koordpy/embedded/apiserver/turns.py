"""Answers that take long, made one after the other, so that others come in between.

A list or the begin of a watch costs as much as its objects are large, and clients may ask for hundreds at
once. Whatever else the process does goes on between two of them.
"""

import asyncio
from collections.abc import Callable

from .storage import Table
from .wire import Answer

_LARGE = 1 << 20
"""Bytes of objects from which an answer waits for its turn."""


class Turns:
    """Makes large answers in the order of their requests."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @staticmethod
    def needs_one(table: Table) -> bool:
        """Return whether a list of all objects is large."""
        return table.stored_bytes > _LARGE

    async def take(self, answer: Callable[[], Answer]) -> Answer:
        """Return an answer that is made when it is its turn. Raises what `answer` raises."""
        async with self._lock:
            await asyncio.sleep(0)
            return answer()
