"""Supervises the services and plugins of the agent: none of them takes the agent down.

A unit that raises, returns, hangs or leaks is logged, counted and started again with backoff:

- *hangs in an await*: a round takes longer than the unit's `round_timeout`; it is cancelled.
- *blocks the event loop*: noticed, named and interrupted by the watchdog thread (`watchdog.py`).
- *leaks*: it has more than `MOST_TASKS` unfinished tasks, or the process has too many open files or threads,
  or nears its memory limit, and the rounds of this unit left most of them behind (`footprint.py`). Ever
  new labels of a Prometheus metric are a leak, too (`label_growth.py`). A plugin that leaks is constructed
  anew. Tasks that are left when a run ends are cancelled.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, cast

from prometheus_client import Gauge

from .footprint import Footprint, Limits, look
from .label_growth import LabelGrowth
from .time_limit import TookTooLong
from .unit import CURRENT, LONGEST_BACKOFF, Unit
from .watchdog import Blocked, Watchdog

log = logging.getLogger(__name__)

MOST_TASKS: Final = 256
"""Unfinished tasks of one unit."""

OPEN_FILES: Final = Gauge("koordpy_agent_open_files", "Open file descriptors of the node agent.")
THREADS: Final = Gauge("koordpy_agent_threads", "Threads of the node agent.")

CHECK_SECONDS: Final = 1.0
_LOOK_EVERY: Final = 10
_COUNT_EVERY: Final = 5
_HEALTHY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 5.0


class Leak(Exception):
    """A unit leaks tasks, file descriptors, threads or memory."""


class RoundTimeout(Exception):
    """A round did not end in time."""


class Supervisor:
    """Runs units until cancelled. `sleep` is for backoff and checks."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        watchdog: Watchdog | None = None,
        most_tasks: int = MOST_TASKS,
        limits: Limits | None = None,
        labels: LabelGrowth | None = None,
    ) -> None:
        self.units: dict[str, Unit] = {}
        self._sleep, self._most_tasks = sleep, most_tasks
        self.watchdog = watchdog or Watchdog()
        self.limits = limits or Limits.of_process()
        self._labels = labels or LabelGrowth()
        self._why: dict[Unit, Exception] = {}
        self._cancelled_at: dict[Unit, float] = {}
        self._checks = 0

    async def run(self) -> None:
        """Check the units again and again; units are run by `keep`. Call it once, until cancelled."""
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()
        loop.set_task_factory(cast(Any, self._make_task))
        self.watchdog.start(loop, self._unit_of_package)
        try:
            while True:
                self.watchdog.beat()
                self.check()
                await self._sleep(CHECK_SECONDS)
        finally:
            self.watchdog.stop()
            loop.set_task_factory(before)

    async def keep(self, unit: Unit) -> None:
        """Run a unit until cancelled: again after it ended, with backoff."""
        self.units[unit.name] = unit
        clock = asyncio.get_running_loop()
        try:
            while True:
                began = clock.time()
                await self._run_once(unit)
                if clock.time() - began >= _HEALTHY_SECONDS:
                    unit.backoff.reset()
                unit.retried_in = LONGEST_BACKOFF if unit.has_blocked else unit.backoff.next()
                await self._sleep(unit.retried_in)
                unit.restarted()
        finally:
            self.units.pop(unit.name, None)

    def report(self, unit: Unit, reason: str, problem: str) -> None:
        """Show a unit that failed before it could be run; `reason` is one of few words, for the metric."""
        self.units[unit.name] = unit
        unit.failed(reason, problem)

    async def _run_once(self, unit: Unit) -> None:
        """Run a unit once, and note how it ended. Only a cancellation of the caller is raised."""
        token = CURRENT.set(unit)
        try:
            task: asyncio.Task[object] = asyncio.create_task(_as_coroutine(unit.run), name=unit.name)
        finally:
            CURRENT.reset(token)
        abandoned = unit.started(task)
        try:
            ends: set[asyncio.Future[Any]] = {task, abandoned}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancel({task})
            raise
        finally:
            unit.ended()
            await _cancel({each for each in unit.tasks if each is not task})
            unit.tasks.clear()
        self._note_end(unit, task)

    def _note_end(self, unit: Unit, task: asyncio.Task[object]) -> None:
        why = self._why.pop(unit, None)
        unit.has_blocked = False
        self._cancelled_at.pop(unit, None)
        if not task.done():
            log.error("%s does not end although it was cancelled; it is left behind", unit.name)
        if why is not None:
            reason = "leaked" if isinstance(why, Leak) else "hung"
            log.error("%s %s: %s; it is started again", unit.name, reason, why)
            unit.failed(reason, f"{reason}: {why}")
            unit.replace()
        elif task.cancelled():
            log.error("%s cancelled itself; it is started again", unit.name)
            unit.failed("ended", "cancelled itself")
        elif (error := task.exception()) is None:
            log.warning("%s returned; it is started again", unit.name)
            unit.failed("ended", "returned")
        else:
            log.error("%s failed; it is started again", unit.name, exc_info=error)
            unit.has_blocked = isinstance(error, Blocked | TookTooLong)
            if not isinstance(error, Blocked):  # the watchdog has counted that
                unit.failed("raised", f"raised: {type(error).__name__}: {error}")

    # --- checks ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Cancel the units that hang or leak; leave behind those that do not end then."""
        now = asyncio.get_running_loop().time()
        if self._checks % _LOOK_EVERY == 0:
            self.check_footprint(look(self.limits))
            for module, problem in self._labels.grown():
                owner = self._unit_of_package(module)
                if owner is not None:
                    self._cancel(owner, Leak(problem))
        counts_tasks = self._checks % _COUNT_EVERY == 0
        self._checks += 1
        for unit in list(self.units.values()):
            if unit in self._cancelled_at and now - self._cancelled_at[unit] > _STOP_SECONDS:
                unit.abandon()
            if unit.main is None or unit in self._why:
                continue
            tasks = unit.count_tasks() if counts_tasks else 0
            if tasks > self._most_tasks:
                self._cancel(unit, Leak(f"{tasks} unfinished tasks, more than {self._most_tasks}"))
            elif (taken := unit.overdue()) is not None:
                self._cancel(
                    unit, RoundTimeout(f"a round takes {taken:.0f} s, more than {unit.round_timeout:g} s")
                )

    def _cancel(self, unit: Unit, why: Exception) -> None:
        if unit.main is not None:
            self._why[unit] = why
            self._cancelled_at[unit] = asyncio.get_running_loop().time()
            unit.main.cancel()

    def check_footprint(self, held: Footprint) -> None:
        """Cancel the unit whose rounds left most behind of what the process has too much of."""
        OPEN_FILES.set(held.files)
        THREADS.set(held.threads)
        for what, words in self.limits.excess(held).items():
            growing = max(self.units.values(), key=lambda unit: getattr(unit.left, what), default=None)
            if growing is not None and getattr(growing.left, what) >= self.limits.least(what):
                growing.left = Footprint()
                self._cancel(
                    growing, Leak(f"the process has {words}, and rounds of this plugin left most behind")
                )

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(coroutine, loop=loop, **options)
        unit = CURRENT.get()
        if unit is not None:
            unit.tasks.add(task)
            self.watchdog.owners[task] = unit
        return task

    def _unit_of_package(self, module: str) -> Unit | None:
        """Return the unit to which a module belongs, for callbacks that run in others' tasks."""
        for unit in list(self.units.values()):
            if unit.package and (module == unit.package or module.startswith(f"{unit.package}.")):
                return unit
        return None


async def _as_coroutine(run: Callable[[], Awaitable[None]]) -> None:
    await run()


async def _cancel(tasks: "set[asyncio.Task[object]]") -> None:
    """Cancel tasks, and wait for them, though not forever."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_STOP_SECONDS)
