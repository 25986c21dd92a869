"""The pace of strategies: an interval, cut short by pressure."""

import asyncio
from collections.abc import Collection

from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.pressure import PressureEvent

SHORTEST_SECONDS = 0.2
"""The shortest time between two rounds, however great the pressure."""


class Pace:
    """Waits for the next round of one strategy; `resources` are those whose pressure starts it early."""

    def __init__(self, handle: Handle, resources: Collection[str]) -> None:
        self._sleep = handle.sleep
        self._pressed: asyncio.Event | None = None
        if handle.pressure is not None:
            self._pressed = asyncio.Event()
            handle.pressure.subscribe(resources, self._press)

    def _press(self, event: PressureEvent) -> None:
        if self._pressed is not None:
            self._pressed.set()

    async def next_round(self, seconds: float) -> bool:
        """Wait for `seconds`, or until there is pressure; return whether there is."""
        if self._pressed is None:
            await self._sleep(seconds)
            return False
        await self._sleep(min(seconds, SHORTEST_SECONDS))
        try:
            async with asyncio.timeout(max(seconds - SHORTEST_SECONDS, 0)):
                await self._pressed.wait()
        except TimeoutError:
            return False
        self._pressed.clear()
        return True
