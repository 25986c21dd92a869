"""The CPU sets that a round requests: those of the last round are in place, and not requested again."""

from collections.abc import Sequence
from typing import NamedTuple

from koordpy.agent.interface import Executor, Update

CHECK_SECONDS = 10.0
"""How often what is in place is requested again, to replace what other processes wrote."""


class CPUSetWrite(NamedTuple):
    """A CPU set for directories, in the order of their writes."""

    cpus: str
    directories: Sequence[str]
    formula: str


class _Round(NamedTuple):
    writes: list[tuple[str, Sequence[str]]]
    revision: int
    at: float


class CPUSetWrites:
    """Requests CPU sets from the executor."""

    def __init__(self, executor: Executor, reason: str) -> None:
        self._executor, self._reason = executor, reason
        self._in_place: _Round | None = None

    def request(self, writes: Sequence[CPUSetWrite], now: float) -> None:
        """Request the sets of a round, unless they are those of the last one and nothing has changed since.

        `now` is in seconds, of a clock that is never set back.
        """
        wanted = [(cpus, directories) for cpus, directories, _ in writes]
        known, before = self._in_place, self._executor.revision
        if (
            known is not None
            and known.revision == before
            and now - known.at < CHECK_SECONDS
            and known.writes == wanted
        ):
            return
        for cpus, directories, formula in writes:
            self._executor.update_batch(
                [Update("cpuset.cpus", directory, cpus, self._reason, formula) for directory in directories]
            )
        after = self._executor.revision
        self._in_place = _Round(wanted, after, now) if after == before else None
