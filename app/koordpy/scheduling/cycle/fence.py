"""Of several processes one gives room of nodes away at a time, and it has seen what the others gave before.

Binding a pod and placing a Reservation are writes that are decided from memory. Two processes that do so side
by side give the same room away twice: neither memory has what the other one is just writing. So both happen
only within a *term*: the time that the Lease is held, from the moment on at which everything that was written
before has been seen.

A write of one term must never come after the beginning of another process's. What is certain is time. The
Lease cannot pass to anybody else before its duration is over, counted from the sending of the last renewal
that was answered: writes begin in the first part of that time, are broken off at a later point of it, and
what is left is for an API server to notice that nobody waits for the answer. A Lease is given up early only
when nothing is under way any more. All of this is measured on the process's own monotonic clock.

A term outlasts a renewal that came late, because a late renewal succeeds only if nobody had the Lease in
between. What was taken in memory during one term is never written in a later one.

Where there is no Lease to hold, the fence is open, and there is one term for ever.
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
    "Time that bind calls waited because this process did not hold the Lease, where they had to.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60),
)


class Closed(Exception):
    """Room cannot be given away now; the message says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds since the last renewal of the Lease was sent."""

    begin: float
    """So long writes may begin."""
    end: float
    """Then those that are under way are broken off."""
    lease: float
    """Then the Lease may be somebody else's."""

    @property
    def patience(self) -> float:
        """How long a bind call waits: a Lease is had by then, or its holder does not let go of it."""
        return 2 * self.lease


FOR_EVER = Limits(math.inf, math.inf, math.inf)


class Fence:
    """Open for ever, until it is `put_up`; then from each `open` to the next `shut`."""

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
        """When a write last ended of which nobody knows whether it was carried out, or will be."""
        self._writes: set[_Write] = set()
        self._breaking_off: asyncio.TimerHandle | None = None
        self._opened = asyncio.Event()
        self._waiting = 0
        self._ended = ""

    # --- those who give room away ----------------------------------------------------------------

    @property
    def term(self) -> int:
        """The number of the term, 0 while nothing may be given away."""
        return self._number if self._clock.monotonic() < self._until else 0

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the next term."""
        return self._waiting > 0

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
                    raise Closed("kube-scheduler hung up meanwhile")
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
        """Carry out what gives room away, if it is still the term in which it was taken.

        A write that is broken off has failed with ConnectionFailed: it may have been carried out.
        """
        if self._limits is FOR_EVER:
            return await work
        if not term or term != self.term:
            work.close()
            return Status.failed(
                "the Lease under which this was decided is not held any more; it has to be tried again"
            )
        write = _Write()
        self._writes.add(write)
        status = None
        try:
            status = await work
        except asyncio.CancelledError:
            if not write.was_broken_off:
                raise
            error = TimeoutError("broken off, because the Lease was not renewed in time")
            status = Status.failed(ConnectionFailed("write", "", error, sent=True))
        finally:
            write.end()
            self._writes.discard(write)
            if status is None or not status.is_success:
                self._doubtful_at = self._clock.monotonic()
        return status

    # --- whoever holds the Lease -----------------------------------------------------------------

    def put_up(self, limits: Limits, why: Callable[[], str]) -> None:
        """Stay shut from now on but for terms; `why` tells what keeps it shut. To be called at first."""
        self._limits, self._why = limits, why
        self._number = 0
        self._in_term = False
        self._until = self._confirmed_at = -math.inf

    def confirm(self, at: float) -> None:
        """The Lease is held: a renewal succeeded that was sent at this moment (monotonic seconds)."""
        self._confirmed_at = at
        if not self._in_term:
            return
        self._until = at + self._limits.begin
        self._break_off_at(at + self._limits.end)
        if self.term:
            self._opened.set()

    def open(self) -> None:
        """Begin a term: the Lease is held, and what others wrote before has been seen."""
        self._number += 1
        self._in_term = True
        self.confirm(self._confirmed_at)

    def shut(self) -> None:
        """End the term: nothing new is written, and what is under way has a moment left."""
        limits = self._limits
        self._in_term = False
        self._until = -math.inf
        moment = self._clock.monotonic() + limits.end - limits.begin
        self._break_off_at(min(moment, self._confirmed_at + limits.end))

    async def quiet(self) -> None:
        """Return when nothing that was written can arrive any more, so that the Lease may be given up."""
        while self._writes:
            await asyncio.sleep(_LOOK_EVERY)
        certain_at = self._doubtful_at + self._limits.lease - self._limits.end
        await asyncio.sleep(certain_at - self._clock.monotonic())

    def end(self, why: str) -> None:
        """Let nobody wait any more: there will be no term again."""
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
    """A write of the current task, which can be broken off: as `asyncio.timeout` does it, but at once.

    After the process stood still, time is over for many timers: no other may let the task go on before.
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
