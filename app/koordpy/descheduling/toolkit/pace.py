"""Yielding to the event loop in long computations, so that Leases are renewed and requests answered."""

import asyncio

from koordpy.lib.clock import Clock

MAX_SECONDS = 0.005


class Pace:
    """Yields when a few milliseconds have passed since it last did.

    What the stores hold may change at every yield.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.monotonic() + MAX_SECONDS

    async def keep(self) -> None:
        """Yield if it is time to; cheap enough for every step of a loop."""
        if self._clock.monotonic() >= self._due:
            await asyncio.sleep(0)
            self._due = self._clock.monotonic() + MAX_SECONDS
