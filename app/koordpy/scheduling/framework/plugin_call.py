"""Calls one plugin at one point: an exception becomes a status, and a sample of the calls is timed."""

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Code, Status

from .metrics import PLUGIN_DURATION, POINT_DURATION, histogram

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")


class Broken(Exception):
    """A plugin raised, or returned what its point does not allow; carries the Error status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


_ALWAYS_TIMED = frozenset(
    (
        "BeforePreFilter", "AfterPreFilter", "FindOneNodePlugin", "PreferNodesPlugin", "TransformNodes",
        "BeforeFilter", "BeforeScore", "AfterPostFilter", "PreBindReservation", "ResizePod",
    )
)  # fmt: skip
"""Koordinator's own points, of which all calls are timed; Kubernetes samples the others."""

_WHERE = {
    "Score": 'running Score plugins: plugin "{}" failed with',
    "ScoreExtensionNormalize": 'running Normalize on Score plugins: plugin "{}" failed with',
    "PreBindReservation": 'running ReservationPreBindPlugin plugin "{}"',
}
"""How messages name a point if not as `running POINT plugin "NAME"`."""


def call(
    state: CycleState, point: str, name: str, method: Callable[P, R], *args: P.args, **kw: P.kwargs
) -> R:
    """Call a plugin's method; time it if the state is measured. Raises Broken if the plugin raises."""
    if not state.measured and point not in _ALWAYS_TIMED:
        try:
            return method(*args, **kw)
        except Exception as error:
            raise broken(point, name, error) from error
    started = time.perf_counter()
    try:
        answer = method(*args, **kw)
    except Exception as error:
        _took(point, name, "Error", started)
        raise broken(point, name, error) from error
    _took(point, name, _outcome(point, answer), started)
    return answer


async def call_async(
    state: CycleState, point: str, name: str, method: Callable[P, Awaitable[R]], *args: P.args, **kw: P.kwargs
) -> R:
    """Do the same for a coroutine; the time includes its waits."""
    started = time.perf_counter()
    timed = state.measured or point in _ALWAYS_TIMED
    try:
        answer = await method(*args, **kw)
    except Exception as error:
        if timed:
            _took(point, name, "Error", started)
        raise broken(point, name, error) from error
    if timed:
        _took(point, name, _outcome(point, answer), started)
    return answer


def timed(point: str, profile: str, phase: Callable[P, R]) -> Callable[P, R]:
    """Wrap a phase to measure the total time of all plugins of its point."""

    def run(*args: P.args, **kw: P.kwargs) -> R:
        started = time.perf_counter()
        answer = phase(*args, **kw)
        _together(point, profile, answer, started)
        return answer

    return run


def timed_async(
    point: str, profile: str, phase: Callable[P, Coroutine[Any, Any, R]]
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Do the same for an asynchronous phase."""

    async def run(*args: P.args, **kw: P.kwargs) -> R:
        started = time.perf_counter()
        answer = await phase(*args, **kw)
        _together(point, profile, answer, started)
        return answer

    return run


def _together(point: str, profile: str, answer: object, started: float) -> None:
    status = _status_in(answer)
    label = "Success" if status is None else status.code.label
    histogram(POINT_DURATION, point, label, profile).observe(time.perf_counter() - started)


def _took(point: str, name: str, outcome: str, started: float) -> None:
    histogram(PLUGIN_DURATION, name, point, outcome).observe(time.perf_counter() - started)


def _outcome(point: str, answer: object) -> str:
    """Return the status label of an answer; Success if it has no status."""
    status = _status_in(answer)
    if status is not None:
        return status.code.label
    return "" if point == "AfterPostFilter" else "Success"


def _status_in(answer: object) -> Status | None:
    if isinstance(answer, tuple):
        return next((item for item in answer if isinstance(item, Status)), None)
    return answer if isinstance(answer, Status) else None


def broken(point: str, name: str, error: Exception) -> Broken:
    """Log a plugin's exception, and return it as the status of the attempt."""
    log.exception("plugin %s raised at %s", name, point)
    where = _WHERE.get(point, f'running {point} plugin "{{}}"').format(name)
    return Broken(Status(Code.ERROR, (f"{where}: {type(error).__name__}: {error}",), name, error=error))


def plugin_name(plugin: object) -> str:
    """Return a plugin's name in configuration files; of an object that is no plugin, its class."""
    return plugin.name if isinstance(plugin, Plugin) else type(plugin).__name__


def as_error(where: str, status: Status, plugin: str) -> Status:
    """Return an unexpected status as the Error that the attempt ends with."""
    return Status(Code.ERROR, (f"{where}: {status.message}",), plugin, error=status.error)
