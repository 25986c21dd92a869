"""What the agent supervises: a service or a plugin, with its rounds and its failures.

A round ends when the unit calls its `sleep`, and the next one begins when that returns: plugins call
`handle.sleep` between their rounds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final
from weakref import WeakSet

from prometheus_client import Counter, Gauge

from koordpy.lib.clock import Clock
from koordpy.lib.supervise import Backoff

from .footprint import Footprint, open_files, resident_bytes, threads
from .footprint import is_short as memory_is_short

FAILURES: Final = Counter(
    "koordpy_agent_plugin_failures_total",
    "Failures of a plugin or service of the node agent, by what happened.",
    ["plugin", "reason"],
)
RESTARTS: Final = Counter(
    "koordpy_agent_plugin_restarts_total", "Times that a plugin or service was started again.", ["plugin"]
)
RUNNING: Final = Gauge("koordpy_agent_plugin_running", "1 while a plugin or service runs.", ["plugin"])
LAST_SUCCESS: Final = Gauge(
    "koordpy_agent_plugin_last_success_timestamp_seconds", "When the last round ended.", ["plugin"]
)
ROUND: Final = Gauge("koordpy_agent_plugin_round_duration_seconds", "Time of the last round.", ["plugin"])
TASKS: Final = Gauge("koordpy_agent_plugin_tasks", "Tasks of a plugin or service.", ["plugin"])

CURRENT: Final[ContextVar["Unit | None"]] = ContextVar("unit", default=None)
"""The unit to which the running task belongs; tasks inherit it from the one that creates them."""

LONGEST_BACKOFF: Final = 60.0
"""Seconds."""

_FILES_EVERY: Final = 30
"""Of so many rounds one is examined for file descriptors and threads that it leaves behind."""


class Unit:
    """A service or plugin; `name` is `KIND/NAME`.

    `run` is called again after it ended. `round_timeout` limits the seconds of a round, from the second one
    on. `package` is the package of its code, by which callbacks are recognized that run in others' tasks.
    `replace` is called after a leak, before the next run.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        not_ready: Callable[[], str | None] = lambda: None,
        round_timeout: float | None = None,
        package: str = "",
        replace: Callable[[], None] = lambda: None,
    ) -> None:
        self.name, self.run, self.round_timeout, self.package = name, run, round_timeout, package
        self._clock, self._base_sleep, self._not_ready = clock, sleep, not_ready
        self.backoff = Backoff(maximum=LONGEST_BACKOFF)
        self.tasks: WeakSet[asyncio.Task[object]] = WeakSet()
        self.main: asyncio.Task[object] | None = None
        self.rounds = 0
        """Rounds since the last start."""
        self.failures = 0
        self.restarts = 0
        self.problem: str | None = None
        """The last failure, until a round has ended after it."""
        self.retried_in: float | None = None
        """Seconds of the present wait before the next start; None while it runs."""
        self.has_blocked = False
        """Whether the last run ended because it blocked the event loop; then the next one waits longer."""
        self.last_success: float | None = None
        self.round_seconds: float | None = None
        self.replace = replace
        self.left = Footprint()
        """What the examined rounds left behind."""
        self.abandoned: asyncio.Future[None] | None = None
        """Done if the run is left behind, because it did not end."""
        self._before = Footprint()
        self._began: float | None = None
        self._last_success, self._round, self._running, self._tasks_metric = (
            metric.labels(name) for metric in (LAST_SUCCESS, ROUND, RUNNING, TASKS)
        )
        self._tasks_exported: int | None = None
        self._restarts = RESTARTS.labels(name)

    # --- rounds ----------------------------------------------------------------------------------

    async def sleep(self, seconds: float) -> None:
        """End a round, wait, and begin the next one."""
        is_main = asyncio.current_task() is self.main
        if is_main:
            self.end_round()
        await self._base_sleep(seconds)
        if is_main:
            examined = self.rounds % _FILES_EVERY == 0
            self._before.files = open_files() if examined else 0
            self._before.threads = threads() if examined else 0
            self._before.memory = resident_bytes() if memory_is_short() else 0
            self._began = self._clock.monotonic()

    def end_round(self) -> None:
        """Note that a round succeeded."""
        now = self._clock.monotonic()
        if self._began is not None:
            self.round_seconds = now - self._began
            self._round.set(self.round_seconds)
        left, before = self.left, self._before
        if before.files:
            left.files = max(0, left.files + open_files() - before.files)
        if before.threads:
            left.threads = max(0, left.threads + threads() - before.threads)
        if before.memory:
            left.memory = max(0, left.memory + resident_bytes() - before.memory)
        before.files = before.threads = before.memory = 0
        self._began = None
        self.rounds += 1
        self.problem = None
        self.last_success = self._clock.now().timestamp()
        self._last_success.set(self.last_success)

    def overdue(self) -> float | None:
        """Return the seconds of the present round if it takes too long."""
        if self.round_timeout is None or self._began is None or not self.rounds:
            return None
        taken = self._clock.monotonic() - self._began
        return taken if taken > self.round_timeout else None

    # --- starts and failures ---------------------------------------------------------------------

    def started(self, task: asyncio.Task[object]) -> "asyncio.Future[None]":
        """Note that the unit runs in this task; return a future that is done when the task is left behind."""
        self.main, self._began, self.rounds, self.retried_in = task, self._clock.monotonic(), 0, None
        self.abandoned = asyncio.get_running_loop().create_future()
        self._running.set(1)
        return self.abandoned

    def ended(self) -> None:
        """Note that the unit does not run any more."""
        self.main = self._began = None
        self._running.set(0)

    def abandon(self) -> None:
        """Leave the present run behind."""
        if self.abandoned is not None and not self.abandoned.done():
            self.abandoned.set_result(None)

    def restarted(self) -> None:
        """Count a restart."""
        self.restarts += 1
        self._restarts.inc()

    def failed(self, reason: str, problem: str) -> None:
        """Count a failure; `reason` is one of few words, for the metric."""
        self.failures += 1
        self.problem = problem
        FAILURES.labels(self.name, reason).inc()

    def count_tasks(self) -> int:
        """Return how many tasks of the unit are not done, besides its own, and export their number."""
        if len(self.tasks) == 1 and self.main in self.tasks:
            count = 0
        else:
            count = sum(1 for task in self.tasks if not task.done() and task is not self.main)
        if count != self._tasks_exported:
            self._tasks_exported = count
            self._tasks_metric.set(count)
        return count

    # --- state -----------------------------------------------------------------------------------

    def not_ready(self) -> str | None:
        """Return why the agent is not ready because of this unit."""
        if self.problem is not None:
            wait = "" if self.retried_in is None else f"; tried again within {self.retried_in:.0f} s"
            return f"{self.problem}{wait}"
        return self._not_ready()

    def document(self) -> dict[str, object]:
        """Return the state for `/debug/plugins`."""
        return {
            "name": self.name,
            "running": self.main is not None,
            "rounds": self.rounds,
            "failures": self.failures,
            "restarts": self.restarts,
            "tasks": self.count_tasks(),
            "lastSuccess": self.last_success,
            "roundSeconds": self.round_seconds,
            "notReady": self.not_ready(),
        }
