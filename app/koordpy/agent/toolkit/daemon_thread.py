"""A thread for calls that may block for long, or for ever, such as those of a driver."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class DaemonThread:
    """Runs calls one after the other, off the event loop.

    A call that hangs does not keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._given = self._done = 0  # the first is changed by the event loop alone, the second by the thread

    @property
    def busy(self) -> bool:
        """Whether a call has not returned yet."""
        return self._given > self._done

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function in the thread; return or raise what it does.

        A call whose waiting is cancelled still runs to its end.
        """
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                value = function()
            except BaseException as error:
                report = _raise_in(result, error)
            else:
                report = _return_in(result, value)
            self._done += 1
            try:
                loop.call_soon_threadsafe(report)
            except RuntimeError:  # the loop is closed: nothing waits any more
                return

        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._given += 1
        self._calls.put(run)
        return await result

    def close(self, last: Callable[[], None] | None = None) -> None:
        """Let the thread end after the calls that it was given, and a last one that must not raise."""
        if self._thread is not None:
            if last is not None:
                self._calls.put(last)
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _return_in(future: "asyncio.Future[T]", value: T) -> Callable[[], None]:
    def report() -> None:
        if not future.done():
            future.set_result(value)

    return report


def _raise_in(future: "asyncio.Future[T]", error: BaseException) -> Callable[[], None]:
    def report() -> None:
        if not future.done():
            future.set_exception(error)

    return report
