"""Core scheduling cookies of the kernel, through prctl (Linux 5.14, `PR_SCHED_CORE`).

Tasks with different cookies never run on the hardware threads of one core at the same time; 0 is the cookie
of all tasks that have none.
"""

import os
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final, Protocol

_PR_SCHED_CORE: Final = 62
_GET, _CREATE, _SHARE_TO, _SHARE_FROM = range(4)
_THREAD, _THREAD_GROUP = 0, 1

NO_COOKIE: Final = 0


class Kernel(Protocol):
    """What the hook does with cookies. All methods but the first raise OSError."""

    def unsupported(self) -> str | None:
        """Return why the kernel has no core scheduling, None if it has."""
        ...

    def get(self, pid: int) -> int:
        """Return the cookie of a thread."""
        ...

    def create(self, pid: int) -> None:
        """Give all threads of a process a new cookie."""
        ...

    def assign(self, source: int, pids: Iterable[int]) -> list[int]:
        """Give processes the cookie of a thread; return those that could not get it."""
        ...

    def clear(self, pids: Iterable[int]) -> list[int]:
        """Take the cookie from processes; return those that kept it."""
        ...


class Prctl:
    """The kernel itself. `ctypes` is imported when it is first used: most nodes do without it."""

    @cached_property
    def _ctypes(self) -> Any:
        import ctypes

        return ctypes

    @cached_property
    def _libc(self) -> Any:
        return self._ctypes.CDLL(None, use_errno=True)

    def unsupported(self) -> str | None:
        """Return why the kernel has no core scheduling, None if it has."""
        try:
            self.get(0)
        except OSError as error:
            return f"prctl PR_SCHED_CORE: {error.strerror}"
        return None

    def get(self, pid: int) -> int:
        """Return the cookie of a thread."""
        cookie = self._ctypes.c_uint64(0)
        self._prctl(_GET, pid, _THREAD, self._ctypes.addressof(cookie))
        return int(cookie.value)

    def create(self, pid: int) -> None:
        """Give all threads of a process a new cookie."""
        self._prctl(_CREATE, pid, _THREAD_GROUP, 0)

    def assign(self, source: int, pids: Iterable[int]) -> list[int]:
        """Give processes the cookie of a thread; return those that could not get it.

        A thread of the agent takes the cookie, passes it on, and ends, so that the agent itself has none.
        """

        def pass_on() -> list[int]:
            self._prctl(_SHARE_FROM, source, _THREAD, 0)
            return self._share(pids)

        return _in_new_thread(pass_on)

    def clear(self, pids: Iterable[int]) -> list[int]:
        """Take the cookie from processes; return those that kept it."""
        return _in_new_thread(lambda: self._share(pids))

    def _share(self, pids: Iterable[int]) -> list[int]:
        failed = []
        for pid in pids:
            try:
                self._prctl(_SHARE_TO, pid, _THREAD_GROUP, 0)
            except OSError:
                failed.append(pid)
        return failed

    def _prctl(self, command: int, pid: int, scope: int, address: int) -> None:
        arguments = (command, pid, scope, address)
        if self._libc.prctl(_PR_SCHED_CORE, *(self._ctypes.c_ulong(each) for each in arguments)) != 0:
            number = self._ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _in_new_thread(work: Callable[[], list[int]]) -> list[int]:
    found: list[int] = []
    errors: list[OSError] = []

    def run() -> None:
        try:
            found.extend(work())
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="core-sched")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return found
