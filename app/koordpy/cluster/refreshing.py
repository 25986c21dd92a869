"""Works off what derived states have put off until they are read, in short slices of the event loop.

Thousands of rows are put off when a process has listed the cluster, and, as no request reads them, while it
waits for the lead. Without this the first request would compute all of them, and everything else would wait.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from .shared_states import SharedStates

SLICE: Final = 16
"""Rows of each state in one slice: some milliseconds."""

PAUSE_SECONDS: Final = 60.0
"""Between the times when everything is current. What changes meanwhile is little."""


class Refreshing:
    """Refreshes the states of a cluster."""

    def __init__(self, states: SharedStates) -> None:
        self._states = states
        self._has_been_current = asyncio.Event()

    def problem(self) -> str | None:
        """Return what is missing until everything has been current once."""
        return None if self._has_been_current.is_set() else "the state of nodes is still being computed"

    async def wait(self) -> None:
        """Return once everything has been current."""
        await self._has_been_current.wait()

    async def run(self, listed: Callable[[], Awaitable[None]]) -> None:
        """Refresh until cancelled, from when everything is listed."""
        await listed()
        while True:
            while self._states.refresh_some(SLICE):
                await asyncio.sleep(0)
            self._has_been_current.set()
            await asyncio.sleep(PAUSE_SECONDS)
