"""Notices code that blocks the event loop, names the plugin that it belongs to, and interrupts it.

All plugins share one event loop, so a plugin that computes or waits without `await` stops all the others.
A thread sees that the loop does not beat; after `warn_seconds` it logs what runs, and after
`interrupt_seconds` it interrupts it by a signal: the handler raises `Blocked` in the code that runs, be that
Python code or a system call. Code that belongs to no plugin is only logged.
"""

import asyncio
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from koordpy.lib.clock import Clock, SystemClock

from .unit import Unit

log = logging.getLogger(__name__)

_SIGNAL: Final = signal.SIGURG
"""A signal that nobody else uses, and that is ignored where there is no handler."""

_CHECK_SECONDS: Final = 1.0


class Blocked(Exception):
    """Raised in code of a plugin that does not let the event loop run."""


class Watchdog:
    """The thread. The event loop calls `beat` at least once per second."""

    def __init__(
        self,
        *,
        warn_seconds: float = 5.0,
        interrupt_seconds: float = 15.0,
        check_seconds: float = _CHECK_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._warn, self._interrupt, self._check = warn_seconds, interrupt_seconds, check_seconds
        self._clock = clock or SystemClock()
        self._beat = self._clock.monotonic()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unit_of_package: Callable[[str], Unit | None] = lambda _: None
        self._main = 0
        self._victim: tuple[float, str] | None = None
        self._handler: Any = None
        self.owners: WeakKeyDictionary[asyncio.Task[Any], Unit] = WeakKeyDictionary()
        """Tasks with the unit to which they belong."""

    def start(self, loop: asyncio.AbstractEventLoop, unit_of_package: Callable[[str], Unit | None]) -> None:
        """Begin to watch the loop of this thread. Only in a main thread code can be interrupted."""
        self._loop, self._unit_of_package, self._main = loop, unit_of_package, threading.get_ident()
        self._done.clear()
        self.beat()
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(_SIGNAL, self._raise)
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._handler is not None:
            signal.signal(_SIGNAL, self._handler)
            self._handler = None

    def beat(self) -> None:
        """Note that the event loop runs."""
        self._beat = self._clock.monotonic()

    # --- in the thread ---------------------------------------------------------------------------

    def _watch(self) -> None:
        warned = interrupted = 0.0
        while not self._done.wait(self._check):
            beat = self._beat
            late = self._clock.monotonic() - beat
            if late > self._warn and warned != beat:
                warned = beat
                self._complain(late)
            if late > self._interrupt and interrupted + self._interrupt < self._clock.monotonic():
                interrupted = self._clock.monotonic()
                self._interrupt_unit(beat)

    def _complain(self, late: float) -> None:
        frame = sys._current_frames().get(self._main)
        unit = self._running(frame)
        stack = "".join(traceback.format_stack(frame, 12)) if frame is not None else ""
        name = "no plugin" if unit is None else unit.name
        log.warning("the event loop has been blocked for %.0f s by %s:\n%s", late, name, stack)

    def _interrupt_unit(self, beat: float) -> None:
        unit = self._running(sys._current_frames().get(self._main))
        if unit is not None and self._handler is not None:
            self._victim = (beat, unit.name)
            signal.pthread_kill(self._main, _SIGNAL)

    def _running(self, frame: FrameType | None) -> Unit | None:
        """Return the unit whose code runs: that of the innermost frame of a plugin, else that of the task."""
        while frame is not None:
            unit = self._unit_of_package(frame.f_globals.get("__name__", ""))
            if unit is not None:
                return unit
            frame = frame.f_back
        task = asyncio.current_task(self._loop) if self._loop is not None else None
        return None if task is None else self.owners.get(task)

    # --- in the main thread ----------------------------------------------------------------------

    def _raise(self, _: int, frame: FrameType | None) -> None:
        victim, self._victim = self._victim, None
        if victim is None or victim[0] != self._beat:
            return  # the loop runs again
        unit = self._running(frame)
        if unit is not None and unit.name == victim[1]:
            problem = f"blocked the event loop for more than {self._interrupt:g} s"
            unit.failed("blocked", problem)  # here, because the code may catch the exception
            raise Blocked(problem)
