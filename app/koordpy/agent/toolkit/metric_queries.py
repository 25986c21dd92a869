"""Queries that strategies make again and again (Koordinator: `qosmanager/helpers/metrics_query.go`).

*last* is the newest sample of two collect intervals, *average* that of a window which ends now.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.metrics import COLLECT_INTERVAL, Aggregation, MetricError

_NONE: Mapping[str, str] = {}


class MetricQueries:
    """Queries of one node's metrics. Values have the unit of their kind; None where there is no sample."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @property
    def collect_interval(self) -> timedelta:
        """The time between two measurements of usage."""
        return self._handle.flags.duration(COLLECT_INTERVAL)

    def last(self, kind: str, properties: Mapping[str, str] = _NONE) -> float | None:
        """Return the newest sample of one series."""
        return self._query(kind, Aggregation.LAST, 2 * self.collect_interval, properties)

    def lasts(self, kind: str, label: str, values: Iterable[str]) -> dict[str, float]:
        """Return the newest samples of several series that differ in one property, by its value."""
        now = self._handle.clock.now()
        try:
            return self._handle.metrics.lasts(kind, label, values, now - 2 * self.collect_interval, now)
        except MetricError:
            return {}

    def average(self, kind: str, window: timedelta, properties: Mapping[str, str] = _NONE) -> float | None:
        """Return the average of one series over a window."""
        return self._query(kind, Aggregation.AVG, window, properties)

    def count(self, kind: str, window: timedelta, properties: Mapping[str, str] = _NONE) -> int:
        """Return the number of samples of one series in a window."""
        return int(self._query(kind, Aggregation.COUNT, window, properties) or 0)

    def _query(
        self, kind: str, how: Aggregation, window: timedelta, properties: Mapping[str, str]
    ) -> float | None:
        now = self._handle.clock.now()
        try:
            return self._handle.metrics.query(kind, how, now - window, now, properties)
        except MetricError:
            return None
