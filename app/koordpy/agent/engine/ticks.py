"""Sleeping until a tick, so that the process wakes a few times a second at most, however much it runs.

Whatever works in rounds of whole seconds then works in one go, while the processor has its code and data at
hand: every wake of its own costs more than a short round does.
"""

import asyncio
from typing import Final

SECONDS: Final = 0.5
"""The time between two ticks."""

SHORTEST: Final = 1.0
"""Seconds; shorter sleeps are not made to end at a tick."""


class Ticks:
    """Sleeps of one event loop. All that end at one tick are one timer."""

    def __init__(self) -> None:
        self._sleeping: dict[int, list[asyncio.Future[None]]] = {}

    async def sleep(self, seconds: float) -> None:
        """Sleep until the tick that is nearest to the end of so many seconds, in order with the others.

        The time that a round took is made up for, as long as it is short: rounds do not drift.
        """
        if seconds < SHORTEST:
            await asyncio.sleep(seconds)
            return
        loop = asyncio.get_running_loop()
        tick = round((loop.time() + seconds) / SECONDS)
        sleeping = self._sleeping.get(tick)
        if sleeping is None:
            sleeping = self._sleeping[tick] = []
            loop.call_at(tick * SECONDS, self._wake, tick)
        woken: asyncio.Future[None] = loop.create_future()
        sleeping.append(woken)
        await woken

    def _wake(self, tick: int) -> None:
        for woken in self._sleeping.pop(tick, ()):
            if not woken.done():  # the sleeper was cancelled
                woken.set_result(None)
