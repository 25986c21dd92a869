"""The metrics as one plugin has them: what it adds is counted, and limited."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, TypeVar

from koordpy.agent.interface.metrics import (
    Aggregation,
    Fact,
    MetricError,
    MetricKind,
    Sample,
    unix_milliseconds,
)

from .aggregation import Window
from .cache import MetricCache
from .series import BlockSeries
from .share import Share

F = TypeVar("F")

MOST_KINDS: Final = 256
MOST_FACTS: Final = 256
"""Kinds and facts that one plugin may add."""


class PluginMetrics:
    """The metrics as one plugin has them: what it adds is counted, and the number of its kinds limited."""

    def __init__(self, cache: MetricCache, plugin: str) -> None:
        self._cache = cache
        self._share = cache.shares.setdefault(plugin, Share(plugin))

    def declare(self, kind: MetricKind) -> None:
        """Add a kind. Raises MetricError if another has the name, or if the plugin has too many."""
        self._limit(self._share.kinds, kind.name, MOST_KINDS, "metric kinds")
        self._cache.declare(kind)

    def series(self, kind: str, properties: Mapping[str, str] | None = None) -> BlockSeries:
        """Return the series of a kind with these properties, to append to. Raises MetricError."""
        return self._cache.series(kind, properties, self._share)

    def append(self, samples: Iterable[Sample]) -> None:
        """Add samples, all or none. Raises MetricError if one has the wrong properties for its kind."""
        checked = [(self.series(sample.kind, sample.properties), sample) for sample in samples]
        for series, sample in checked:
            series.append(sample.value, unix_milliseconds(sample.time))

    def points(
        self, kind: str, start: datetime, end: datetime, properties: Mapping[str, str] | None = None
    ) -> Window:
        """Return all points in [start, end] of the matching series. Raises MetricError."""
        return self._cache.points(kind, start, end, properties)

    def query(
        self,
        kind: str,
        aggregation: Aggregation,
        start: datetime,
        end: datetime,
        properties: Mapping[str, str] | None = None,
    ) -> float:
        """Aggregate all points in [start, end] of the matching series. Raises MetricError."""
        return self._cache.query(kind, aggregation, start, end, properties)

    def lasts(
        self, kind: str, label: str, values: Iterable[str], start: datetime, end: datetime
    ) -> dict[str, float]:
        """Return the newest values of several series of a kind with one property. Raises MetricError."""
        return self._cache.lasts(kind, label, values, start, end)

    def set_fact(self, fact: Fact[F], value: F) -> None:
        """Store the latest value of a fact. Raises MetricError if the plugin has too many facts."""
        self._limit(self._share.facts, fact.key, MOST_FACTS, "facts")
        self._cache.set_fact(fact, value)

    def fact(self, fact: Fact[F]) -> F | None:
        """Return a fact; None if it is not known yet."""
        return self._cache.fact(fact)

    def _limit(self, known: set[str], name: str, most: int, what: str) -> None:
        if name in known:
            return
        if len(known) >= most:
            raise MetricError(f"plugin {self._share.name} may add {most} {what} at most; got {name[:80]!r}")
        known.add(name)
