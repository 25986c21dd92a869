"""Keeps loops running: a loop that raises is logged, counted and restarted with backoff."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from prometheus_client import Counter

log = logging.getLogger(__name__)

RESTARTS = Counter("koordpy_loop_restarts_total", "Times a supervised loop ended with an error.", ["loop"])


@dataclass
class Backoff:
    """Jittered exponential delays: `initial * factor**n`, at most `maximum`, each times 0.5 to 1."""

    initial: float = 0.5
    factor: float = 2.0
    maximum: float = 30.0
    rng: random.Random = field(default_factory=random.Random)
    _failures: int = 0

    def next(self) -> float:
        """Return the seconds to wait after one more failure."""
        delay = min(self.maximum, self.initial * self.factor**self._failures)
        self._failures = min(self._failures + 1, 64)
        return delay * (0.5 + self.rng.random() / 2)

    def reset(self) -> None:
        """Forget past failures: the next delay is the initial one."""
        self._failures = 0


async def forever(
    name: str,
    loop: Callable[[], Awaitable[None]],
    *,
    backoff: Backoff | None = None,
    healthy_after: float = 60.0,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run `loop` until cancelled. It is restarted when it raises and also when it returns.

    A run of `healthy_after` seconds or more resets the backoff.
    """
    backoff = backoff or Backoff()
    clock = asyncio.get_running_loop()
    while True:
        started = clock.time()
        try:
            await loop()
        except asyncio.CancelledError:
            raise
        except Exception:
            RESTARTS.labels(name).inc()
            log.exception("%s failed; it will be restarted", name)
        if clock.time() - started >= healthy_after:
            backoff.reset()
        await sleep(backoff.next())
