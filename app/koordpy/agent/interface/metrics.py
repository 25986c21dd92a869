"""The metrics of a node, as plugins see them (koordlet's metric cache).

A collector gets each `Series` that it measures once, keeps it and appends to it in every round; strategies
and reports ask for the points of a window with `Metrics.query` or, to aggregate them in several ways,
`Metrics.points`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

COLLECT_INTERVAL: Final = "collect-res-used-interval"
"""The flag with the interval at which the usage of pods and the node is measured; its default is 1s."""

F = TypeVar("F")

_MINUTES: Final = timedelta(minutes=10)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True)
class MetricKind:
    """A kind of series: what tells its series apart, the unit of its values, and how long they are kept.

    Every property of a kind must be given with each sample. CPU is in cores, memory in bytes. `retention` is
    the longest window that is usually queried; a query of a longer window makes the kind be kept that much
    longer from then on, up to `--tsdb-retention-duration`.
    """

    name: str
    properties: tuple[str, ...] = ()
    unit: str = ""
    retention: timedelta = _MINUTES


class MetricError(ValueError):
    """A kind, a sample or a query does not fit what is declared, or a query found nothing."""


def unix_milliseconds(time: datetime) -> int:
    """Return a time as whole milliseconds since 1970, rounded down: the resolution of all series."""
    return (time - _EPOCH) // _MILLISECOND


class Aggregation(StrEnum):
    """How the points of a query are aggregated."""

    AVG = "avg"
    """The mean."""
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    LAST = "last"
    COUNT = "count"
    """The number of points, also if there are none."""


class Series(Protocol):
    """One series. Collectors keep it, so that adding a sample looks nothing up.

    It may be kept for ever: it costs memory only while it has points, and a series whose points have all
    expired starts anew with the next sample.
    """

    def add(self, value: float, at: float) -> None:
        """Add a sample taken `at` seconds after the epoch, stored with a resolution of a millisecond.

        A sample that is up to a minute older than the newest one is put in its place, an older one is
        dropped, and so are values that are not finite.
        """
        ...

    def append(self, value: float, at: int) -> None:
        """Add a sample as `add` does; `at` is in Unix milliseconds, for collectors that add many at once."""
        ...

    def close(self) -> None:
        """Drop all samples, when the pod, container or device is gone for good."""
        ...


class Points(Protocol):
    """The points of all series that matched a query, to aggregate in several ways (AggregateResult)."""

    @property
    def count(self) -> int:
        """How many points there are."""
        ...

    @property
    def span(self) -> timedelta:
        """The time between the first and the last point of the series that matched last."""
        ...

    def value(self, aggregation: Aggregation) -> float:
        """Aggregate the points. Raises MetricError if there are none, except for COUNT."""
        ...


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


class Metrics(Protocol):
    """Series by kind and properties, and facts."""

    def declare(self, kind: MetricKind) -> None:
        """Add a kind; a collector's own `kinds` are declared before it is set up.

        Raises MetricError if the kind is declared already with other properties or another unit. The longer
        retention of two declarations counts.
        """
        ...

    def series(self, kind: str, properties: Mapping[str, str] | None = None) -> Series:
        """Return the series of a kind with these properties, to append to.

        Nothing is stored before its first point. Raises MetricError for an unknown kind or other properties
        than the kind has.
        """
        ...

    def points(
        self, kind: str, start: datetime, end: datetime, properties: Mapping[str, str] | None = None
    ) -> Points:
        """Return all points in [start, end] of the series with these properties (a subset may be given).

        Raises MetricError for an unknown kind or property.
        """
        ...

    def query(
        self,
        kind: str,
        aggregation: Aggregation,
        start: datetime,
        end: datetime,
        properties: Mapping[str, str] | None = None,
    ) -> float:
        """Aggregate all points in [start, end] of the series with these properties (a subset may be given).

        Raises MetricError for an unknown kind or property and if there is no point, except for COUNT.
        """
        ...

    def lasts(
        self, kind: str, label: str, values: Iterable[str], start: datetime, end: datetime
    ) -> dict[str, float]:
        """Return the newest values in [start, end] of several series of a kind with one property, by it.

        Series without a sample are left out. Raises MetricError for an unknown kind, or one that has not this
        property alone.
        """
        ...

    def append(self, samples: Iterable[Sample]) -> None:
        """Add samples, all or none. Raises MetricError if one has the wrong properties for its kind.

        For single values; a collector that measures regularly keeps its `series`.
        """
        ...

    def set_fact(self, fact: Fact[F], value: F) -> None:
        """Store the latest value of a fact."""
        ...

    def fact(self, fact: Fact[F]) -> F | None:
        """Return a fact; None if it is not known yet."""
        ...
