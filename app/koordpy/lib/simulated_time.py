"""An event loop on which time passes only when no callback is ready to run.

Timers fire in order and at their simulated times, but the waits between them take no real time: when nothing
is ready, the loop's clock jumps to the next timer. So a program of coroutines that gets its time from the
loop, or from a `SimulatedClock`, simulates a day in the time of its own work, and does the same in the same
order every time.

What is given to a thread runs at once, on the loop: on another thread it would take a while that depends on
the machine, and meanwhile the clock would go on. Sockets work, but the clock does not wait for them: a
simulation must not use them.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

_RESOLUTION = 1e-6
"""Seconds by which a timer may fire early: the precision of a float after years."""


class Stalled(RuntimeError):
    """A task waits for something that no timer will trigger."""


class _Selector(selectors.DefaultSelector):
    """Advances the time where a selector would wait."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now; if nothing is, advance the time by `timeout` seconds."""
        if timeout is not None and timeout <= 0:
            self._jump(0.0)
            return []
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Stalled("nothing is scheduled any more, and a task still waits")
            self._jump(timeout)
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """The event loop; its time starts at 0 seconds."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        super().__init__(_Selector(self._jump))
        self._clock_resolution = _RESOLUTION

    def time(self) -> float:
        """Return the seconds since the start."""
        return self._elapsed

    def run_in_executor(  # type: ignore[override]  # typeshed: only with TypeVarTuple
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """Run a function now; the future that is returned has its result, or what it raised."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _jump(self, seconds: float) -> None:
        """Advance the time, and to a timer that is about to fire early.

        Otherwise what waits for the timer's time would wait for it again, and the time would stand still.
        """
        self._elapsed += seconds
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if timers and self._elapsed < timers[0].when() < self._elapsed + _RESOLUTION:
            self._elapsed = timers[0].when()


class SimulatedClock:
    """The time of a simulated loop that began at `start`."""

    def __init__(self, loop: SimulatedLoop, start: datetime) -> None:
        if start.tzinfo is None:
            raise ValueError(f"SimulatedClock needs an aware datetime, got {start!r}")
        self._loop, self._start = loop, start.astimezone(UTC)

    def now(self) -> datetime:
        """Return the simulated wall-clock time, aware, in UTC."""
        return self._start + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        """Return the simulated seconds since the start."""
        return self._loop.time()


def run(program: Callable[[SimulatedLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a program on a new loop and return its result. Raises Stalled, and what it raises."""
    loops: list[SimulatedLoop] = []

    def make() -> SimulatedLoop:
        loops.append(SimulatedLoop())
        return loops[-1]

    with asyncio.Runner(loop_factory=make) as runner:
        runner.get_loop()
        return runner.run(program(loops[0]))
