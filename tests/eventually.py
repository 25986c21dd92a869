"""Waiting, in tests of things that settle by themselves."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

PATIENCE = float(os.environ.get("KOORDPY_TEST_PATIENCE", "180"))
"""Seconds that a test waits for what must come about.

How long it takes says how busy the machine is, not whether the code is right; where all is well, no test
waits so long. It is less than pytest's own limit for a test, whose end shows no reason. Mutation runs, in
which much never comes about, set it lower.
"""


def eventually(holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether ``holds`` becomes true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def becomes_true(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `holds` returns true. Raises TimeoutError if that never comes about."""
    async with asyncio.timeout(PATIENCE):
        while not await holds():
            await asyncio.sleep(0.05)
