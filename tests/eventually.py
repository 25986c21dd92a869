"""Waiting, in tests of things that settle by themselves."""

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether ``holds`` becomes true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
