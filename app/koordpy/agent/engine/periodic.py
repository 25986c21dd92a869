"""A service that does one short thing again and again."""

import asyncio
from collections.abc import Awaitable, Callable


class Periodic:
    """Calls a function at an interval, first at once unless it is `delayed`. It is always ready."""

    def __init__(
        self,
        name: str,
        action: Callable[[], object],
        seconds: float,
        *,
        delayed: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self._action, self._seconds, self._delayed, self.sleep = action, seconds, delayed, sleep

    async def run(self) -> None:
        """Call the function until cancelled."""
        if self._delayed:
            await self.sleep(self._seconds)
        while True:
            self._action()
            await self.sleep(self._seconds)

    def not_ready(self) -> str | None:
        """Return None."""
        return None
