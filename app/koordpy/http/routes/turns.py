"""One what-if at a time, and few that wait: each may compute for seconds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import HTTPException

_WAITING: Final = 4
"""The most what-ifs that may wait for the running one."""


class Turns:
    """The what-ifs of a process."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for the others. Raises HTTPException 429 if too many do."""
        if self._waiting > _WAITING:
            raise HTTPException(429, f"{self._waiting} what-ifs are waiting already; try again later")
        self._waiting += 1
        try:
            async with self._turn:
                yield
        finally:
            self._waiting -= 1
