"""Interrupts code of plugins where the event loop is not watched yet: imports, constructors, `setup`."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TookTooLong(Exception):
    """Code of a plugin did not return in time."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TookTooLong in the code of the block once it has taken so long, and then every second.

    Only the main thread can be interrupted; in others nothing is limited. A timer that the process has is
    put off until the block has ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_: int, __: FrameType | None) -> None:
        raise TookTooLong(f"did not return within {seconds:g} s")

    began = time.monotonic()
    handler = signal.signal(signal.SIGALRM, interrupt)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.001), interval)
