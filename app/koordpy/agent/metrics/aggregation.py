"""The aggregation of points (pkg/koordlet/metriccache/util.go).

The order of the arithmetic is Koordinator's, so that both report the same digits: sums go from left to right
in double precision, the index of a percentile is computed in single precision.
"""

import struct
from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from operator import add
from typing import Final

from koordpy.agent.interface.metrics import Aggregation, MetricError

_SINGLE: Final = struct.Struct("f")


def _single(value: float) -> float:
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0])


_PERCENTILES: Final = {
    Aggregation.P50: _single(0.5),
    Aggregation.P90: _single(0.9),
    Aggregation.P95: _single(0.95),
    Aggregation.P99: _single(0.99),
}

_NO_POINTS_SPAN: Final = timedelta(milliseconds=-9223372036854)
"""Koordinator's span of a series without points: a duration in nanoseconds can be no shorter."""


class Window:
    """The points of the series that matched a query: of each its times, in Unix milliseconds, and values."""

    __slots__ = ("_parts", "_sorted", "_what", "values")

    def __init__(self, parts: Sequence[tuple[Sequence[int], Sequence[float]]], what: str = "metric") -> None:
        self._parts = parts
        self._what = what
        self.values: Sequence[float] = (
            parts[0][1] if len(parts) == 1 else [value for _, values in parts for value in values]
        )
        self._sorted: list[float] | None = None

    @property
    def count(self) -> int:
        """How many points there are."""
        return len(self.values)

    @property
    def span(self) -> timedelta:
        """The time between the first and the last point of the last series; it ends in 1970 or later."""
        if not self._parts:
            return timedelta()
        times = self._parts[-1][0]
        if not times:
            return _NO_POINTS_SPAN
        return timedelta(milliseconds=max(max(times), 0) - min(times))

    def value(self, aggregation: Aggregation) -> float:
        """Aggregate the points. Raises MetricError if there are none, except for COUNT."""
        if aggregation is Aggregation.COUNT:
            return float(len(self.values))
        if not self.values:
            raise MetricError(f"{self._what}: metric input is empty")
        share = _PERCENTILES.get(aggregation)
        if share is not None:
            if self._sorted is None:
                self._sorted = sorted(self.values)
            return self._sorted[max(int(_single(len(self.values) * share)) - 1, 0)]
        if aggregation is Aggregation.LAST:
            return self._last()
        return reduce(add, self.values, 0.0) / len(self.values)

    def _last(self) -> float:
        """Return the value with the latest time after 1970, the first of several; 0 if there is none."""
        latest, found = 0, 0.0
        for times, values in self._parts:
            for time, value in zip(times, values, strict=True):
                if time > latest:
                    latest, found = time, value
        return found
