"""One process at a time allocates resources of nodes, and only after it has seen all earlier allocations.

Binding a pod and placing a Reservation are writes that are decided from memory. Two processes that do so
concurrently would allocate the same resources twice, because neither has in memory what the other is about to
write. So both happen only within a *term*: the time during which the Lease is held, starting when everything
written before has been observed.

A write of one term must never arrive after another process's term has begun. The only certainty is time. The
Lease cannot pass to another process before its duration has elapsed, counted from when the last answered
renewal was sent: writes start in the first part of that time and are cancelled at a later point; the rest
leaves the API server time to notice that the client has disconnected. A Lease is released early only when no
write is in flight. All of this is measured on the process's own monotonic clock.

A term survives a late renewal, because a late renewal succeeds only if no other process held the Lease in
between. What was assumed in memory during one term is never written in a later one.

Without a Lease the fence is always open, and there is a single term.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from prometheus_client import Histogram

from koordpy.cluster.errors import ConnectionFailed
from koordpy.lib.clock import Clock
from koordpy.scheduling.interface.status import Status

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.01
"""Seconds."""

WAITS = Histogram(
    "koordpy_extender_fence_wait_seconds",
    "Time that bind calls waited because this process did not hold the Lease.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60),
)


class Closed(Exception):
    """Resources cannot be allocated now; the message says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds since the last renewal of the Lease was sent."""

    begin: float
    """Writes may start within this time."""
    end: float
    """Writes in flight are cancelled after this time."""
    lease: float
    """After this time another process may hold the Lease."""

    @property
    def patience(self) -> float:
        """How long a bind call waits: by then this process holds the Lease, or its holder keeps it."""
        return 2 * self.lease


FOR_EVER = Limits(math.inf, math.inf, math.inf)


class Fence:
    """Always open until `enable` is called; then open from each `open` to the next `shut`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limits = FOR_EVER
        self._why: Callable[[], str] = str
        self._number = 1
        self._in_term = True
        self._until = math.inf
        """When the last renewal is too old for another write to begin."""
        self._confirmed_at = math.inf
        self._doubtful_at = -math.inf
        """When the last write with an unknown outcome ended."""
        self._writes: set[_Write] = set()
        self._breaking_off: asyncio.TimerHandle | None = None
        self._opened = asyncio.Event()
        self._waiting = 0
        self._wanted_until = -math.inf
        self._ended = ""

    # --- users of the fence ----------------------------------------------------------------------

    @property
    def term(self) -> int:
        """The number of the term, 0 while nothing may be allocated."""
        return self._number if self._clock.monotonic() < self._until else 0

    @property
    def is_awaited(self) -> bool:
        """Whether any caller waits for the next term, or was refused because there is none."""
        return self._waiting > 0 or self._clock.monotonic() < self._wanted_until

    def want(self) -> None:
        """Note that a caller was refused because this is no term, and will come again."""
        self._wanted_until = self._clock.monotonic() + self._limits.patience

    async def entered(self, gone: Callable[[], Awaitable[None]] | None = None) -> int:
        """Wait for a term and return its number. Raises Closed after a while, or when `gone` returns."""
        began = self._clock.monotonic()
        if not self._waiting:
            log.warning("binds wait: %s", self._why())
        self._waiting += 1
        leaving: asyncio.Future[Any] | None = asyncio.ensure_future(gone()) if gone is not None else None
        try:
            while not (term := self.term):
                rest = began + self._limits.patience - self._clock.monotonic()
                if self._ended or rest <= 0:
                    raise Closed(self._ended or self._why())
                if leaving is not None and leaving.done():
                    raise Closed("kube-scheduler disconnected meanwhile")
                await self._opening(rest, leaving)
            return term
        finally:
            self._waiting -= 1
            WAITS.observe(self._clock.monotonic() - began)
            if leaving is not None:
                leaving.cancel()

    async def _opening(self, seconds: float, leaving: asyncio.Future[Any] | None) -> None:
        self._opened.clear()
        opening: asyncio.Future[Any] = asyncio.ensure_future(self._opened.wait())
        try:
            awaited = {opening} if leaving is None else {opening, leaving}
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opening.cancel()

    async def write(self, term: int, work: Coroutine[Any, Any, Status]) -> Status:
        """Run a write that allocates resources, if the term in which they were assumed is still current.

        A cancelled write fails with ConnectionFailed: it may have taken effect.
        """
        if self._limits is FOR_EVER:
            return await work
        if not term or term != self.term:
            work.close()
            return Status.failed("the Lease under which this was decided is no longer held; try again")
        write = _Write()
        self._writes.add(write)
        status = None
        try:
            status = await work
        except asyncio.CancelledError:
            if not write.was_broken_off:
                raise
            error = TimeoutError("cancelled, because the Lease was not renewed in time")
            status = Status.failed(ConnectionFailed("write", "", error, sent=True))
        finally:
            write.end()
            self._writes.discard(write)
            if status is None or not status.is_success:
                self._doubtful_at = self._clock.monotonic()
        return status

    # --- the holder of the Lease -----------------------------------------------------------------

    def enable(self, limits: Limits, why: Callable[[], str]) -> None:
        """Keep the fence shut outside terms from now on; `why` is the reason. Call this first."""
        self._limits, self._why = limits, why
        self._number = 0
        self._in_term = False
        self._until = self._confirmed_at = -math.inf

    def confirm(self, at: float) -> None:
        """Record that the Lease is held: a renewal sent at this moment (monotonic seconds) succeeded."""
        self._confirmed_at = at
        if not self._in_term:
            return
        self._until = at + self._limits.begin
        self._break_off_at(at + self._limits.end)
        if self.term:
            self._opened.set()

    def open(self) -> None:
        """Begin a term: the Lease is held, and earlier writes of other processes have been observed."""
        self._number += 1
        self._in_term = True
        self.confirm(self._confirmed_at)

    def shut(self) -> None:
        """End the term: no new writes start, and writes in flight have a moment to finish."""
        limits = self._limits
        self._in_term = False
        self._until = -math.inf
        moment = self._clock.monotonic() + limits.end - limits.begin
        self._break_off_at(min(moment, self._confirmed_at + limits.end))

    async def quiet(self) -> None:
        """Return once no write in flight can still arrive, so that the Lease may be released."""
        while self._writes:
            await asyncio.sleep(_LOOK_EVERY)
        certain_at = self._doubtful_at + self._limits.lease - self._limits.end
        await asyncio.sleep(certain_at - self._clock.monotonic())

    def end(self, why: str) -> None:
        """Fail all waiting callers: there will be no further term."""
        self._ended = why
        self._opened.set()

    def _break_off_at(self, moment: float) -> None:
        if self._breaking_off is not None:
            self._breaking_off.cancel()
        rest = max(moment - self._clock.monotonic(), 0.0)
        self._breaking_off = asyncio.get_running_loop().call_later(rest, self._break_off)

    def _break_off(self) -> None:
        for write in self._writes:
            write.break_off()


class _Write:
    """A write of the current task that can be cancelled, as with `asyncio.timeout`, but immediately.

    After the process was suspended many timers are due at once: no other may resume the task first.
    """

    __slots__ = ("_cancelling", "_is_broken_off", "_task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling = task.cancelling()
        self._is_broken_off = False

    def break_off(self) -> None:
        if not self._is_broken_off:
            self._is_broken_off = True
            self._task.cancel()

    @property
    def was_broken_off(self) -> bool:
        """Whether this, and nothing else, is why the task was cancelled."""
        return self._is_broken_off and self._task.cancelling() - 1 <= self._cancelling

    def end(self) -> None:
        if self._is_broken_off:
            self._task.uncancel()
