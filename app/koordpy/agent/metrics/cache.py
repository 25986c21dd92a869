"""The metrics of this node: time series by kind and properties, and the latest facts by key.

Kinds, properties and aggregations are Koordinator's (pkg/koordlet/metriccache). Memory is bounded: points
are kept for the retention of their kind, and all of them together take at most `max_bytes`; beyond that,
series of objects that are gone lose their points first, then the oldest points of all go.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from koordpy.agent.interface.metric_kinds import KINDS
from koordpy.agent.interface.metrics import (
    Aggregation,
    Fact,
    MetricError,
    MetricKind,
    Sample,
    unix_milliseconds,
)
from koordpy.lib.clock import Clock

from .aggregation import Window
from .blocks import BLOCK_BYTES, Blocks
from .series import LATE_MILLISECONDS, BlockSeries

F = TypeVar("F")

log = logging.getLogger(__name__)

RETENTION: Final = timedelta(hours=12)
"""The longest retention of any kind (koordlet's --tsdb-retention-duration)."""

MAX_BYTES: Final = 100 << 20
"""The size of all series together (koordlet's --tsdb-max-bytes)."""

SERIES_BYTES: Final = 1024
"""What a series costs beside its blocks, as counted against the limit: its objects and its names."""

_MILLISECOND: Final = timedelta(milliseconds=1)


class MetricCache:
    """Series and facts of one node."""

    def __init__(self, clock: Clock, retention: timedelta = RETENTION, max_bytes: int = MAX_BYTES) -> None:
        self._clock = clock
        self._longest = retention // _MILLISECOND
        self._max_bytes = max_bytes
        self._kinds: dict[str, MetricKind] = {}
        self._retentions: dict[str, int] = {}
        self._series: dict[str, dict[tuple[str, ...], BlockSeries]] = {}
        self._with_points = 0
        self._ids = 0
        self._facts: dict[str, Any] = {}
        self.blocks = Blocks()
        self.evicted = 0
        for kind in KINDS.values():
            self.declare(kind)

    # --- kinds -----------------------------------------------------------------------------------

    def declare(self, kind: MetricKind) -> None:
        """Add a kind. Raises MetricError if it is declared already with other properties or another unit."""
        known = self._kinds.setdefault(kind.name, kind)
        if len(set(kind.properties)) != len(kind.properties):
            raise MetricError(
                f"metric kind {kind.name}: a property is named twice in {list(kind.properties)}"
            )
        if known.properties != kind.properties or known.unit != kind.unit:
            raise MetricError(
                f"metric kind {kind.name} is declared with the properties {list(kind.properties)} and the "
                f"unit {kind.unit!r}, but it has {list(known.properties)} and {known.unit!r} already"
            )
        self._series.setdefault(kind.name, {})
        self._keep(kind.name, kind.retention // _MILLISECOND)

    def retention_milliseconds(self, kind: str) -> int:
        """Return how long points of a kind are kept."""
        return self._retentions[kind]

    def _keep(self, kind: str, milliseconds: int) -> None:
        self._retentions[kind] = min(max(milliseconds, self._retentions.get(kind, 0)), self._longest)

    # --- writing ---------------------------------------------------------------------------------

    def series(self, kind: str, properties: Mapping[str, str] | None = None) -> BlockSeries:
        """Return the series of a kind with these properties, to append to."""
        identity = self._identity(kind, properties or {})
        found = self._series[kind].get(identity)
        if found is None:
            found = self._series[kind][identity] = BlockSeries(self, kind, identity)
        return found

    def append(self, samples: Iterable[Sample]) -> None:
        """Add samples, all or none. Raises MetricError if one has the wrong properties for its kind."""
        checked = [(self.series(sample.kind, sample.properties), sample) for sample in samples]
        for series, sample in checked:
            series.append(sample.value, unix_milliseconds(sample.time))

    def set_fact(self, fact: Fact[F], value: F) -> None:
        """Store the latest value of a fact."""
        self._facts[fact.key] = value

    def collect(self) -> None:
        """Free the points that are older than the retention of their kind, and forget series without any."""
        now = unix_milliseconds(self._clock.now())
        for kind, by_identity in self._series.items():
            horizon = now - self._retentions[kind]
            for identity, series in list(by_identity.items()):
                series.drop_before(horizon)
                if not series.block_count:
                    del by_identity[identity]

    # --- reading ---------------------------------------------------------------------------------

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
        if aggregation is Aggregation.LAST and properties is not None:
            declared = self._kinds.get(kind)
            if declared is not None and properties.keys() == set(declared.properties):
                identity = tuple([properties[name] for name in declared.properties])
                series = self._series[kind].get(identity)
                low = unix_milliseconds(start)
                self._note_window(kind, low)
                found = None if series is None else series.last_between(low, unix_milliseconds(end))
                if found is not None:
                    return found
        return self.points(kind, start, end, properties).value(aggregation)

    def points(
        self, kind: str, start: datetime, end: datetime, properties: Mapping[str, str] | None = None
    ) -> Window:
        """Return all points in [start, end] of the series with these properties (a subset may be given).

        Raises MetricError for an unknown kind or property.
        """
        wanted = properties or {}
        low, high = unix_milliseconds(start), unix_milliseconds(end)
        matching = self._matching(kind, wanted)
        self._note_window(kind, low)
        parts = [series.between(low, high) for series in matching]
        return Window([part for part in parts if part[0]], f"{kind}{dict(wanted) or ''}")

    def fact(self, fact: Fact[F]) -> F | None:
        """Return a fact; None if it is not known yet."""
        found: F | None = self._facts.get(fact.key)
        return found

    def _matching(self, kind: str, wanted: Mapping[str, str]) -> list[BlockSeries]:
        declared = self._declared(kind)
        names = declared.properties
        for name in wanted:
            if name not in names:
                raise MetricError(f"metric {kind} has no property {name!r}; it has {list(names)}")
        by_identity = self._series[kind]
        if len(wanted) == len(names):
            found = by_identity.get(tuple([wanted[name] for name in names]))
            return [found] if found is not None else []
        asked = [(names.index(name), value) for name, value in wanted.items()]
        matching = [
            series
            for identity, series in by_identity.items()
            if all(identity[index] == value for index, value in asked)
        ]
        by_name = sorted(range(len(names)), key=names.__getitem__)
        return sorted(matching, key=lambda series: [series.identity[index] for index in by_name])

    def _note_window(self, kind: str, start: int) -> None:
        """Keep the points of a kind for as long as they are asked for, from now on."""
        window = unix_milliseconds(self._clock.now()) - start
        kept = self._retentions[kind]
        if window > kept and kept < self._longest:
            self._keep(kind, window)
            log.info(
                "metric %s is queried %.0f s back: it was kept for %.0f s, from now on for %.0f s",
                kind,
                window / 1000,
                kept / 1000,
                self._retentions[kind] / 1000,
            )

    def _declared(self, kind: str) -> MetricKind:
        declared = self._kinds.get(kind)
        if declared is None:
            raise MetricError(f"unknown metric kind {kind!r}")
        return declared

    def _identity(self, kind: str, properties: Mapping[str, str]) -> tuple[str, ...]:
        names = self._declared(kind).properties
        if properties.keys() != set(names):
            raise MetricError(
                f"a sample of {kind} needs the properties {list(names)}, got {sorted(properties)}"
            )
        return tuple([properties[name] for name in names])

    # --- memory ----------------------------------------------------------------------------------

    @property
    def bytes_used(self) -> int:
        """What all series take, as counted against the limit."""
        return self.blocks.used * BLOCK_BYTES + self._series_count() * SERIES_BYTES

    def claim(self, series: BlockSeries) -> BlockSeries:
        """Register a series that gets its first point; return the series that is registered already."""
        registered = self._series[series.kind].setdefault(series.identity, series)
        if registered is series:
            self._ids += 1
            series.id = self._ids
        return registered

    def take_block(self, series: BlockSeries, base: int) -> int:
        """Return the number of an empty block; if the limit is reached, others lose points for it."""
        while self.bytes_used + BLOCK_BYTES > self._max_bytes and self._evict(series, base):
            pass
        return self.blocks.take(series.id, base)

    def is_ahead(self, time: int) -> bool:
        """Return whether a point lies in the future: the clock was set back."""
        return time > unix_milliseconds(self._clock.now()) + LATE_MILLISECONDS

    def _series_count(self) -> int:
        return sum(map(len, self._series.values()))

    def _evict(self, keep: BlockSeries, now: int) -> bool:
        """Free some blocks; return whether there was anything to free."""
        present = [
            series
            for by_identity in self._series.values()
            for series in by_identity.values()
            if series.block_count and series is not keep
        ]
        gone = [series for series in present if now - series.newest > LATE_MILLISECONDS + 2 * series.interval]
        for series in gone:
            series.close()
            del self._series[series.kind][series.identity]
        if not gone and present:
            oldest = min(present, key=lambda series: series.oldest)
            oldest.drop_oldest_block()
        self.evicted += len(gone) or bool(present)
        return bool(present)
