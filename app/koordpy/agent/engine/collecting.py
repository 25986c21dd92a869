"""Runs collectors: each at the interval of its flag."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from koordpy.agent.interface.collector import CollectError, Collector

log = logging.getLogger(__name__)


class Collecting:
    """Calls one collector at its interval; ready once it has measured, or if it has nothing to measure."""

    def __init__(
        self,
        collector: Collector,
        seconds: float,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = collector.name
        self._collector, self._seconds, self._sleep = collector, seconds, sleep
        self._failure: str | None = "has not measured yet"

    async def run(self) -> None:
        """Collect until cancelled. Every exception but CollectError is left to the supervisor."""
        if (reason := self._collector.idle_reason()) is not None:
            log.info("collector %s is idle: %s", self.name, reason)
            self._failure = None
            await asyncio.Event().wait()
        while True:
            try:
                if (measuring := self._collector.collect()) is not None:
                    await measuring
            except CollectError as error:
                if self._failure != str(error):
                    log.warning("collector %s: %s", self.name, error)
                self._failure = str(error)
            else:
                self._failure = None
            await self._sleep(self._seconds)

    def not_ready(self) -> str | None:
        """Return why the last measurement failed; None if it did not."""
        return self._failure
