"""Calling one plugin at one point: what it raises becomes a status, and a sample of the calls is timed."""

import logging
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .cycle_state import CycleState
from .metrics import PLUGIN_DURATION, tally
from .status import Code, Status

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class Broken(Exception):
    """A plugin raised, or answered what its point does not allow; carries the Error status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def call(
    state: CycleState, point: str, name: str, method: Callable[P, R], *args: P.args, **kw: P.kwargs
) -> R:
    """Call a plugin's method; time it when the state is measured. Raises Broken when the plugin raises."""
    if not state.measured:
        try:
            return method(*args, **kw)
        except Exception as error:
            raise broken(point, name, error) from error
    started = time.perf_counter()
    outcome = "Success"
    try:
        return method(*args, **kw)
    except Exception as error:
        outcome = "Error"
        raise broken(point, name, error) from error
    finally:
        tally(PLUGIN_DURATION, name, point, outcome).observe(time.perf_counter() - started)


def broken(point: str, name: str, error: Exception) -> Broken:
    """Log what a plugin raised, and return it as the status of the attempt."""
    log.exception("plugin %s raised at %s", name, point)
    reason = f'running {point} plugin "{name}": {type(error).__name__}: {error}'
    return Broken(Status(Code.ERROR, (reason,), name, error=error))


def as_error(where: str, status: Status, plugin: str) -> Status:
    """Return an unexpected status as the Error that the attempt ends with."""
    return Status(Code.ERROR, (f"{where}: {status.message}",), plugin, error=status.error)
