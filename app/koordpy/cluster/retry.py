"""Writes that are retried after a conflict, or if the API server is busy."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .errors import Conflict, TooManyRequests

T = TypeVar("T")


async def retried(
    write: Callable[[], Awaitable[T]],
    *,
    rng: random.Random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    steps: int = 4,
    initial: float = 0.01,
    factor: float = 5.0,
    jitter: float = 0.1,
    on: tuple[type[Exception], ...] = (Conflict, TooManyRequests),
) -> T:
    """Write, up to `steps` times while the API server answers 409 or 429; raise the last error.

    `on` selects the errors to retry. The defaults are those of Kubernetes'
    `k8s.io/client-go/util/retry`.
    """
    pause = initial
    for _ in range(steps - 1):
        try:
            return await write()
        except on:
            await sleep(pause * (1 + jitter * rng.random()))
            pause *= factor
    return await write()
