"""The metrics of this node: time series by kind and properties, and the latest facts by key.

Kinds, properties and aggregations are Koordinator's (pkg/koordlet/metriccache). Everything is in memory:
after a restart series are empty, and strategies idle until the first sample.
"""

import bisect
import math
import struct
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from koordpy.agent.interface.metric_kinds import KINDS
from koordpy.agent.interface.metrics import Aggregation, Fact, MetricError, Sample
from koordpy.lib.clock import Clock

F = TypeVar("F")

RETENTION = timedelta(hours=12)


class _Series:
    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[float] = []
        self.values: list[float] = []

    def add(self, time: float, value: float) -> None:
        if not self.times or time >= self.times[-1]:
            self.times.append(time)
            self.values.append(value)
        else:
            at = bisect.bisect_right(self.times, time)
            self.times.insert(at, time)
            self.values.insert(at, value)

    def drop_before(self, time: float) -> None:
        end = bisect.bisect_left(self.times, time)
        if end:
            del self.times[:end]
            del self.values[:end]


class MetricCache:
    """Series and facts of one node."""

    def __init__(self, clock: Clock, retention: timedelta = RETENTION) -> None:
        self._clock = clock
        self._retention = retention
        self._series: dict[str, dict[tuple[str, ...], _Series]] = {}
        self._facts: dict[str, Any] = {}

    def append(self, samples: Iterable[Sample]) -> None:
        """Add samples, all or none. Raises MetricError if one has the wrong properties for its kind."""
        checked = [(sample, _identity(sample.kind, sample.properties)) for sample in samples]
        horizon = (self._clock.now() - self._retention).timestamp()
        for sample, identity in checked:
            series = self._series.setdefault(sample.kind, {}).setdefault(identity, _Series())
            series.add(sample.time.timestamp(), sample.value)
            series.drop_before(horizon)

    def query(
        self,
        kind: str,
        aggregation: Aggregation,
        start: datetime,
        end: datetime,
        properties: Mapping[str, str] | None = None,
    ) -> float:
        """Aggregate all points in [start, end] of the series with these properties (a subset may be given).

        Raises MetricError if there is no point, except for COUNT.
        """
        declared = KINDS.get(kind)
        if declared is None:
            raise MetricError(f"unknown metric kind {kind!r}")
        names = declared.properties
        wanted = dict(properties or {})
        if unknown := set(wanted) - set(names):
            raise MetricError(f"metric {kind} has no property {sorted(unknown)[0]!r}; it has {list(names)}")
        low, high = start.timestamp(), end.timestamp()
        times: list[float] = []
        values: list[float] = []
        for identity, series in self._series.get(kind, {}).items():
            if any(wanted.get(name, value) != value for name, value in zip(names, identity, strict=True)):
                continue
            first, last = bisect.bisect_left(series.times, low), bisect.bisect_right(series.times, high)
            times += series.times[first:last]
            values += series.values[first:last]
        return aggregate(aggregation, times, values, f"{kind}{wanted or ''}")

    def collect(self) -> None:
        """Drop points beyond the retention and series without points."""
        horizon = (self._clock.now() - self._retention).timestamp()
        for by_identity in self._series.values():
            for identity, series in list(by_identity.items()):
                series.drop_before(horizon)
                if not series.times:
                    del by_identity[identity]

    def series(self, kind: str, properties: Mapping[str, str] | None = None) -> "SeriesWriter":
        """Return a series for adding samples. Raises MetricError for wrong properties or an unknown kind."""
        return SeriesWriter(self, kind, _identity(kind, properties or {}))

    def add(self, kind: str, identity: tuple[str, ...], value: float, at: float) -> None:
        """Add a sample of a series that is known to be valid; `at` in seconds after the epoch."""
        series = self._series.setdefault(kind, {}).setdefault(identity, _Series())
        series.add(at, value)
        series.drop_before(at - self._retention.total_seconds())

    def set_fact(self, fact: Fact[F], value: F) -> None:
        """Store the latest value of a fact."""
        self._facts[fact.key] = value

    def fact(self, fact: Fact[F]) -> F | None:
        """Return a fact; None if it is not known yet."""
        found: F | None = self._facts.get(fact.key)
        return found


class SeriesWriter:
    """Adds samples to one series."""

    __slots__ = ("_cache", "_identity", "_kind")

    def __init__(self, cache: MetricCache, kind: str, identity: tuple[str, ...]) -> None:
        self._cache, self._kind, self._identity = cache, kind, identity

    def add(self, value: float, at: float) -> None:
        """Add a sample taken `at` seconds after the epoch."""
        self._cache.add(self._kind, self._identity, value, at)


def aggregate(how: Aggregation, times: list[float], values: list[float], what: str = "metric") -> float:
    """Aggregate points. Percentile indexes are computed in single precision, as Koordinator does."""
    if how is Aggregation.COUNT:
        return float(len(values))
    if not values:
        raise MetricError(f"{what}: metric input is empty")
    if how is Aggregation.LAST:
        return values[max(range(len(times)), key=times.__getitem__)]
    if how is Aggregation.AVG:
        return math.fsum(values) / len(values)
    share = _single(float(how[1:]) / 100)
    index = max(int(_single(_single(float(len(values))) * share)) - 1, 0)
    return sorted(values)[index]


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _identity(kind: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    declared = KINDS.get(kind)
    if declared is None:
        raise MetricError(f"unknown metric kind {kind!r}")
    names = declared.properties
    if set(properties) != set(names):
        raise MetricError(f"a sample of {kind} needs the properties {list(names)}, got {sorted(properties)}")
    return tuple(properties[name] for name in names)
