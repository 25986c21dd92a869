"""Run a program in several processes that a parent watches over, and that end with it.

The parent does nothing but supervise: it starts the workers, starts one again that ended by itself (after a
growing delay), passes a request to stop on to all, waits for them and answers for them with its exit code.
The first worker starts alone, and the others when it is ready: what must be made once for all, it makes. A
worker that fails before all have been ready once is not started again: what is wrong then is wrong with the
program or its configuration.

Each worker has a channel to the parent. On it the worker says that it is ready, and hears when all are; and
since only the parent holds the other end, its closing says that the parent is gone, however it ended.
"""

import asyncio
import contextlib
import gc
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from .supervise import Backoff

log = logging.getLogger(__name__)

_READY: Final = b"+"
_KEPT_SECONDS: Final = 60.0
"""A worker that lived so long and then ended is started again without much delay."""


@dataclass
class Seat:
    """A worker's place among the others.

    `is_replacement` says that the others have been at work already, `all_ready` that all are ready, or have
    been once, `is_orphan` that the parent ended without this worker.
    """

    index: int
    count: int
    is_replacement: bool
    channel: socket.socket
    all_ready: bool = False
    is_orphan: bool = False

    def watch(self, parent_is_gone: Callable[[], None]) -> None:
        """Listen to the parent on the running event loop."""
        loop = asyncio.get_running_loop()
        self.channel.setblocking(False)

        def readable() -> None:
            try:
                said = self.channel.recv(64)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if said:
                self.all_ready = True
            else:
                loop.remove_reader(self.channel.fileno())
                self.is_orphan = True
                parent_is_gone()

        loop.add_reader(self.channel.fileno(), readable)

    def ready(self) -> None:
        """Tell the parent that this worker is ready."""
        with contextlib.suppress(OSError):  # a parent that is gone will be noticed by `watch`
            self.channel.send(_READY)


@dataclass
class _Worker:
    """A worker as the parent sees it."""

    index: int
    backoff: Backoff = field(default_factory=Backoff)
    pid: int = 0
    channel: socket.socket | None = None
    is_ready: bool = False
    started: float = 0.0
    start_at: float | None = None

    @property
    def lives(self) -> bool:
        return self.pid != 0


class Prefork:
    """Run `work` in `count` processes until SIGTERM or SIGINT.

    `work` gets its seat and returns when the worker is done; what it raises is that process's business.
    Workers that are still there `grace_seconds` after they were told to stop are killed, as they are at a
    second signal. `stopping` is called when the stop begins.
    """

    def __init__(
        self,
        count: int,
        work: Callable[[Seat], None],
        *,
        grace_seconds: float,
        stopping: Callable[[], None] = lambda: None,
    ) -> None:
        self._work, self._grace_seconds, self._stopping = work, grace_seconds, stopping
        self._workers = [_Worker(index) for index in range(count)]
        self._selector = selectors.DefaultSelector()
        self._all_were_ready = False
        self._kill_at: float | None = None
        self._code = 0
        self._signals = 0

    def run(self) -> int:
        """Supervise, and return the exit code: 0, or that of the first worker that failed at start or stop.

        In the workers this returns 0 when their work is done, or raises what it raised.
        """
        ours, wakened = socket.socketpair()
        for end in (ours, wakened):
            end.setblocking(False)
        self._selector.register(wakened, selectors.EVENT_READ)
        signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._count_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        gc.collect()
        gc.freeze()  # pages that the collector does not touch stay shared
        try:
            self._workers[0].start_at = time.monotonic()
            while any(worker.lives or worker.start_at is not None for worker in self._workers):
                for key, _ in self._selector.select(self._patience()):
                    if key.data is None:
                        with contextlib.suppress(BlockingIOError):
                            wakened.recv(4096)
                    else:
                        self._hear(key.data)
                self._reap()
                if seat := self._look_after():
                    ours.close()
                    wakened.close()
                    self._work(seat)
                    return 0
        finally:
            with contextlib.suppress(ValueError):
                signal.set_wakeup_fd(-1)
        return self._code

    # --- workers ---------------------------------------------------------------------------------

    def _start(self, worker: _Worker) -> Seat | None:
        """Fork; return the seat in the new process, None in the parent."""
        sys.stdout.flush()
        sys.stderr.flush()
        parents, childs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            parents.close()
            for other in self._workers:
                if other.channel is not None:
                    other.channel.close()
            self._selector.close()
            return Seat(worker.index, len(self._workers), self._all_were_ready, childs)
        childs.close()
        parents.setblocking(False)
        self._selector.register(parents, selectors.EVENT_READ, worker)
        worker.pid, worker.channel, worker.is_ready = pid, parents, False
        worker.started, worker.start_at = time.monotonic(), None
        return None

    def _hear(self, worker: _Worker) -> None:
        """Take note that a worker is ready; say so to all when it is the last one."""
        assert worker.channel is not None
        try:
            said = worker.channel.recv(64)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._selector.unregister(worker.channel)  # it has ended, or is about to
            return
        worker.is_ready = True
        if self._all_were_ready:
            self._say_ready(worker)
        elif not all(other.is_ready for other in self._workers):
            for other in self._workers:
                if not other.lives:
                    other.start_at = time.monotonic()
        else:
            self._all_were_ready = True
            log.info("all %d workers are ready", len(self._workers))
            for other in self._workers:
                self._say_ready(other)

    def _say_ready(self, worker: _Worker) -> None:
        if worker.channel is not None:
            with contextlib.suppress(OSError):
                worker.channel.send(_READY)

    def _reap(self) -> None:
        """Take leave of workers that have ended."""
        for worker in self._workers:
            if not worker.lives:
                continue
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if pid == 0:
                continue
            code = os.waitstatus_to_exitcode(status)
            worker.pid = 0
            if worker.channel is not None:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(worker.channel)
                worker.channel.close()
                worker.channel = None
            self._ended(worker, pid, code)

    def _ended(self, worker: _Worker, pid: int, code: int) -> None:
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        if self._kill_at is not None:
            told = (-signal.SIGTERM, -signal.SIGINT)  # it had not got so far as to handle them
            self._code = self._code or (0 if code in told else _exit_code(code))
        elif not self._all_were_ready:
            log.error("worker %d (process %d) ended before all were ready: %s", worker.index, pid, how)
            self._code = _exit_code(code) or 1
            self._stop()
        else:
            if time.monotonic() - worker.started >= _KEPT_SECONDS:
                worker.backoff.reset()
            delay = worker.backoff.next()
            worker.start_at = time.monotonic() + delay
            log.error(
                "worker %d (process %d) ended: %s; a new one starts in %.1f s", worker.index, pid, how, delay
            )

    # --- time and signals ------------------------------------------------------------------------

    def _count_signal(self, *_: object) -> None:
        self._signals += 1

    def _patience(self) -> float | None:
        """Return the seconds until something is due."""
        due = [worker.start_at for worker in self._workers if worker.start_at is not None]
        if self._kill_at is not None:
            due.append(self._kill_at)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _look_after(self) -> Seat | None:
        """Do what is due: stop, kill, start again. Returns the seat in a new process."""
        now = time.monotonic()
        if self._signals and self._kill_at is None:
            self._stop()
        if self._kill_at is not None:
            if now >= self._kill_at or self._signals > 1:
                self._kill_at = now + self._grace_seconds
                self._send(signal.SIGKILL)
            return None
        for worker in self._workers:
            if worker.start_at is not None and now >= worker.start_at and (seat := self._start(worker)):
                return seat
        return None

    def _stop(self) -> None:
        self._kill_at = time.monotonic() + self._grace_seconds
        self._stopping()
        for worker in self._workers:
            worker.start_at = None
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.lives:
                os.kill(worker.pid, number)  # not reaped yet, so the number is still its own


def _exit_code(code: int) -> int:
    """Return what a shell would show for a process that ended with `code` (negative: a signal)."""
    return code if code >= 0 else 128 - code
