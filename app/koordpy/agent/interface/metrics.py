"""The metrics of a node, as plugins see them (koordlet's metric cache)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

COLLECT_INTERVAL: Final = "collect-res-used-interval"
"""The flag with the interval at which the usage of pods and the node is measured; its default is 1s."""

F = TypeVar("F")

_HOURS: Final = timedelta(hours=12)
_MINUTES: Final = timedelta(minutes=10)


@dataclass(frozen=True)
class MetricKind:
    """A kind of series: what tells its series apart, the unit of its values, and how long they are kept.

    Every property of a kind must be given with each sample. CPU is in cores, memory in bytes.
    """

    name: str
    properties: tuple[str, ...] = ()
    unit: str = ""
    retention: timedelta = _MINUTES


class MetricError(ValueError):
    """A sample or a query does not fit its kind, or a query found nothing."""


class Aggregation(StrEnum):
    """How the points of a query are aggregated."""

    AVG = "avg"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    LAST = "last"
    COUNT = "count"


@dataclass(frozen=True)
class Sample:
    """One measured value."""

    kind: str
    value: float
    time: datetime
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Fact(Generic[F]):
    """A fact about the node that is not a series; its key holds a value of type F."""

    key: str


class Series(Protocol):
    """One series. Collectors keep it, so that adding a sample looks nothing up.

    It may be kept for ever: a series whose points have all expired starts anew with the next sample.
    """

    def add(self, value: float, at: float) -> None:
        """Add a sample taken `at` seconds after the epoch."""
        ...


class Metrics(Protocol):
    """Series by kind and properties, and facts."""

    def query(
        self,
        kind: str,
        aggregation: Aggregation,
        start: datetime,
        end: datetime,
        properties: Mapping[str, str] | None = None,
    ) -> float:
        """Aggregate all points in [start, end] of the series with these properties (a subset may be given).

        Raises MetricError if there is no point, except for
        COUNT.
        """
        ...

    def append(self, samples: Iterable[Sample]) -> None:
        """Add samples, all or none. Raises MetricError if one has the wrong properties for its kind."""
        ...

    def series(self, kind: str, properties: Mapping[str, str] | None = None) -> Series:
        """Return a series for adding samples. Raises MetricError for wrong properties or an unknown kind."""
        ...

    def set_fact(self, fact: Fact[F], value: F) -> None:
        """Replace the value of a fact."""
        ...

    def fact(self, fact: Fact[F]) -> F | None:
        """Return a fact; None if it is not known yet."""
        ...
