"""The memory that callers make a process hold: unfinished requests, waiting ones, responses not read yet.

All connections of a process share one limit. Beyond it, those go that have waited for their caller longest:
callers that send and read as fast as they can hold memory only briefly, so they are served whatever others
do.
"""

from math import inf
from typing import Final, Protocol

LIMIT: Final = 80 << 20
"""Bytes."""

_KEPT: Final = 0.75
"""The share of the limit that is left after connections were closed, so that this is done rarely."""


class Holder(Protocol):
    """A connection that may hold memory."""

    @property
    def held(self) -> int:
        """Bytes; part of `Memory.held`."""
        ...

    @property
    def waiting_since(self) -> float:
        """The event loop's time since which it has waited for its caller, infinite if it does not wait."""
        ...

    def give_up(self, problem: str) -> None:
        """Close the connection, and release what it holds."""
        ...


class Memory:
    """The bytes that the connections of a process hold together, and these connections."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit, self.held = limit, 0
        self.holders: set[Holder] = set()

    @property
    def is_exhausted(self) -> bool:
        """Whether more is held than the limit, because nothing of it waits for its caller."""
        return self.held > self.limit

    def charge(self, size: int) -> None:
        """Note that a connection holds `size` bytes more (or less); close others if they are too many."""
        self.held += size
        if size > 0 and self.held > self.limit:
            self._close_the_slowest()

    def _close_the_slowest(self) -> None:
        waiting = [holder for holder in self.holders if holder.held and holder.waiting_since < inf]
        for holder in sorted(waiting, key=lambda holder: holder.waiting_since):
            if self.held <= self.limit * _KEPT:
                return
            holder.give_up("too many large requests in progress")
