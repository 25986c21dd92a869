"""The work queue of a controller: keys to process, each once, with retries after failures.

A key that is added while it waits is in the queue once. A key that is added while it is processed is requeued
afterwards, so no key is ever processed twice at the same time and no change is missed. Source: Kubernetes,
`k8s.io/client-go/util/workqueue`.
"""

import asyncio
import heapq
from collections import Counter, deque
from itertools import count

from koordpy.lib import queue_metrics as metrics
from koordpy.lib.clock import Clock
from koordpy.lib.token_bucket import TokenBucket

_LARGEST_EXPONENT = 64


class RetryLimiter:
    """The backoff of failed keys: 5 ms, doubled with each failure, up to 1000 s; and a rate limit for all
    keys of 10 per second with a burst of 100.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        base: float = 0.005,
        maximum: float = 1000.0,
        rate: float = 10.0,
        burst: int = 100,
    ) -> None:
        self._base, self._maximum = base, maximum
        self._failures: Counter[str] = Counter()
        self._all = TokenBucket(rate, burst, clock)

    def when(self, key: str) -> float:
        """Count a failure of a key; return its delay in seconds."""
        exponent = min(self._failures[key], _LARGEST_EXPONENT)
        self._failures[key] += 1
        return max(min(self._base * 2.0**exponent, self._maximum), self._all.reserve())

    def forget(self, key: str) -> None:
        """Forget a key's failures."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Return how many failures of a key are remembered."""
        return self._failures.get(key, 0)


class WorkQueue:
    """Keys to process, in order of arrival. Times are seconds."""

    def __init__(self, name: str, clock: Clock, limiter: RetryLimiter | None = None) -> None:
        self.name = name
        self._clock = clock
        self._limiter = limiter or RetryLimiter(clock)
        self._ready: deque[str] = deque()
        self._dirty: dict[str, float] = {}  # keys to process, and since when
        self._in_work: dict[str, float] = {}
        self._waiting: dict[str, float] = {}  # keys to be added later, and when
        self._schedule: list[tuple[float, int, str]] = []
        self._order = count()
        self._wake = asyncio.Event()
        labels = (name, name)
        self._depth = metrics.DEPTH.labels(*labels)
        self._adds = metrics.ADDS.labels(*labels)
        self._retries = metrics.RETRIES.labels(*labels)
        self._queue_seconds = metrics.QUEUE_SECONDS.labels(*labels)
        self._work_seconds = metrics.WORK_SECONDS.labels(*labels)
        metrics.UNFINISHED_SECONDS.labels(*labels).set_function(lambda: sum(self._spent()))
        metrics.LONGEST_SECONDS.labels(*labels).set_function(lambda: max(self._spent(), default=0.0))

    def __len__(self) -> int:
        """Return the number of waiting keys, without delayed ones."""
        return len(self._ready)

    def add(self, key: str) -> None:
        """Add a key."""
        if key in self._dirty:
            return
        self._dirty[key] = self._clock.monotonic()
        self._adds.inc()
        if key not in self._in_work:
            self._enqueue(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Add a key after a delay; of several delays the earliest counts."""
        self._retries.inc()
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if due < self._waiting.get(key, float("inf")):
            self._waiting[key] = due
            heapq.heappush(self._schedule, (due, next(self._order), key))
            self._wake.set()

    def add_rate_limited(self, key: str) -> None:
        """Add a failed key after its backoff and the rate limit of all keys.

        A key that was added by an event and fails before its retry is due is retried when that was due, and
        its backoff stays: the backoff grows with how long a key has failed. In client-go it grows with every
        event, so that a right missing for three seconds delays a busy key by minutes.
        """
        if key not in self._waiting or not self.failures(key):
            self.add_after(key, self._limiter.when(key))

    def forget(self, key: str) -> None:
        """Forget a key's failures, which resets its backoff."""
        self._limiter.forget(key)

    def failures(self, key: str) -> int:
        """Return the number of failures of a key since it last succeeded."""
        return self._limiter.failures(key)

    def pop(self) -> str | None:
        """Return the next key, which is being processed until `done` is called; None if there is none now."""
        self._add_due()
        if not self._ready:
            return None
        key = self._ready.popleft()
        now = self._clock.monotonic()
        self._queue_seconds.observe(now - self._dirty.pop(key))
        self._in_work[key] = now
        self._depth.set(len(self._ready))
        return key

    async def get(self) -> str:
        """Wait for the next key; it is being processed until `done` is called."""
        while (key := self.pop()) is None:
            self._wake.clear()
            wait = self._schedule[0][0] - self._clock.monotonic() if self._schedule else None
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                continue
        return key

    def done(self, key: str) -> None:
        """Mark a key as processed; if it was added meanwhile, it is queued again."""
        self._work_seconds.observe(self._clock.monotonic() - self._in_work.pop(key))
        if key in self._dirty:
            self._enqueue(key)

    def _enqueue(self, key: str) -> None:
        self._ready.append(key)
        self._depth.set(len(self._ready))
        self._wake.set()

    def _add_due(self) -> None:
        now = self._clock.monotonic()
        while self._schedule and self._schedule[0][0] <= now:
            due, _, key = heapq.heappop(self._schedule)
            if (
                self._waiting.get(key) == due
            ):  # otherwise it was rescheduled earlier, and has been added by now
                del self._waiting[key]
                self.add(key)

    def _spent(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - since for since in self._in_work.values()]
