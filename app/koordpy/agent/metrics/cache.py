"""The metrics of this node: time series by kind and properties, and the latest facts by key.

Kinds, properties and aggregations are Koordinator's (pkg/koordlet/metriccache). Memory is bounded: points
are kept for the retention of their kind, and all of them together take at most `max_bytes`; beyond that, the
plugin that has most loses points: first those of series of objects that are gone, then the oldest.
"""

import logging
import mmap
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
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
from .blocks import BLOCK_BYTES, SEGMENT_BYTES, Blocks, anonymous_segment
from .file import MetricFile, SeriesName, is_whole
from .series import LATE_MILLISECONDS, BlockSeries
from .share import SERIES_BYTES as SERIES_BYTES
from .share import Share

F = TypeVar("F")

log = logging.getLogger(__name__)

RETENTION: Final = timedelta(hours=12)
"""The longest retention of any kind (koordlet's --tsdb-retention-duration)."""

MAX_BYTES: Final = 100 << 20
"""The size of all series together (koordlet's --tsdb-max-bytes)."""

LONGEST_IDENTITY: Final = 2048
"""Characters of all properties of a series together."""

_ROOM_SHARE: Final = 16
"""The share of the limit that is made free at once when the limit is reached."""

_COMPACTION: Final = 1024
"""Of so many new series one looks whether the file has too many names of series that are gone."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_UNDECLARED_MILLISECONDS: Final = 10 * 60_000
"""How long restored points are kept whose kind nobody has declared yet."""


class MetricCache:
    """Series and facts of one node."""

    def __init__(
        self,
        clock: Clock,
        retention: timedelta = RETENTION,
        max_bytes: int = MAX_BYTES,
        file: MetricFile | None = None,
    ) -> None:
        """Restore the series of a file, if one is given, and keep new points there."""
        self._clock = clock
        self._file = file
        self._longest = retention // _MILLISECOND
        self._max_bytes = max_bytes
        self._kinds: dict[str, MetricKind] = {}
        self._retentions: dict[str, int] = {}
        self._series: dict[str, dict[tuple[str, ...], BlockSeries]] = {}
        self._ids = 0
        self._facts: dict[str, Any] = {}
        self.blocks = Blocks(self._map_segment)
        self.shares: dict[str, Share] = {"": Share()}
        """What plugins have, by their names."""
        self.evicted = 0
        """How many times points were dropped because of the limit."""
        self._has_room = True
        for kind in KINDS.values():
            self.declare(kind)
        if file is not None:
            self._restore(file)

    def close(self) -> None:
        """Let go of the memory and the file; the cache cannot be used any more."""
        self.blocks.close()
        if self._file is not None:
            self._file.close()

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
        restored = self._series.setdefault(kind.name, {})
        for identity in [each for each in restored if len(each) != len(kind.properties)]:
            self._forget(restored[identity])
        self._keep(kind.name, kind.retention // _MILLISECOND)

    def retention_milliseconds(self, kind: str) -> int:
        """Return how long points of a kind are kept."""
        return self._retentions.get(kind, _UNDECLARED_MILLISECONDS)

    def _keep(self, kind: str, milliseconds: int) -> None:
        self._retentions[kind] = min(max(milliseconds, self._retentions.get(kind, 0)), self._longest)

    # --- writing ---------------------------------------------------------------------------------

    def series(
        self, kind: str, properties: Mapping[str, str] | None = None, share: Share | None = None
    ) -> BlockSeries:
        """Return the series of a kind with these properties, to append to; it counts for a share.

        It is stored with its first point.
        """
        identity = self._identity(kind, properties or {})
        share = share or self.shares[""]
        found = self._series[kind].get(identity)
        if found is None:
            return BlockSeries(self, kind, identity, share=share)
        if found.share is not share:
            found.move(share)
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
            horizon = now - self.retention_milliseconds(kind)
            for series in list(by_identity.values()):
                series.drop_before(horizon)
                if not series.block_count:
                    self._forget(series)
        if self._file is not None and self._file.needs_compaction(self.series_count):
            self._compact(self._file)

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

    def lasts(
        self, kind: str, label: str, values: Iterable[str], start: datetime, end: datetime
    ) -> dict[str, float]:
        """Return the newest values in [start, end] of several series that differ in one property, by it.

        Raises MetricError for an unknown kind, or one that has not this property alone.
        """
        declared = self._declared(kind)
        if declared.properties != (label,):
            raise MetricError(f"metric {kind} has the properties {list(declared.properties)}, not {label!r}")
        low, high = unix_milliseconds(start), unix_milliseconds(end)
        self._note_window(kind, low)
        by_identity, found = self._series[kind], {}
        for value in values:
            series = by_identity.get((value,))
            last = None if series is None else series.last_between(low, high)
            if last is not None:
                found[value] = last
        return found

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
            if self._file is not None:
                self._file.set_retention(kind, self._retentions[kind])
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
        identity = tuple([properties[name] for name in names])
        if sum(map(len, identity)) > LONGEST_IDENTITY:
            raise MetricError(f"a sample of {kind}: properties of more than {LONGEST_IDENTITY} characters")
        return identity

    # --- memory ----------------------------------------------------------------------------------

    @property
    def bytes_used(self) -> int:
        """What all series take, as counted against the limit."""
        return self.blocks.used * BLOCK_BYTES + self.series_count * SERIES_BYTES

    def claim(self, series: BlockSeries) -> BlockSeries:
        """Register a series that gets its first point; return the series that is registered already."""
        registered = self._series[series.kind].setdefault(series.identity, series)
        if registered is series and not series.id:
            self._ids += 1
            series.id = self._ids
            series.share.series += 1
            if self._file is not None:
                self._file.add_name(_name_of(series))
                if not self._ids % _COMPACTION and self._file.needs_compaction(self.series_count):
                    self._compact(self._file)
        return registered

    def take_block(self, series: BlockSeries, base: int) -> int:
        """Return the number of an empty block; if the limit is reached, others lose points for it."""
        if self.bytes_used + BLOCK_BYTES > self._max_bytes:
            self._make_room(series, base)
        try:
            return self.blocks.take(series.id, base)
        except OSError as error:
            log.warning("metrics of the next minutes are in memory alone: %s", error)
            self._has_room = False
            return self.blocks.take(series.id, base)

    def is_ahead(self, time: int) -> bool:
        """Return whether a point lies in the future: the clock was set back."""
        return time > unix_milliseconds(self._clock.now()) + LATE_MILLISECONDS

    @property
    def series_count(self) -> int:
        """The number of series."""
        return sum(map(len, self._series.values()))

    def _forget(self, series: BlockSeries) -> None:
        series.close()
        if series.id:
            series.share.series -= 1
        series.id = 0
        del self._series[series.kind][series.identity]

    def _map_segment(self, index: int) -> mmap.mmap:
        if self._file is None or not self._has_room:
            return anonymous_segment(index)
        return self._file.map_segment(index)

    def _make_room(self, keep: BlockSeries, now: int) -> None:
        """Drop points until some of the limit is free again, but none of the series that needs it.

        The plugin with most bytes loses points until another one has most.
        """
        wanted = self._max_bytes - max(self._max_bytes // _ROOM_SHARE, BLOCK_BYTES)
        by_share: dict[str, list[BlockSeries]] = {}
        for by_identity in self._series.values():
            for series in by_identity.values():
                if series is not keep:
                    by_share.setdefault(series.share.name, []).append(series)
        for name in sorted(by_share, key=lambda name: self.shares[name].bytes, reverse=True):
            if self.bytes_used <= wanted:
                return
            self._drop_stale(by_share[name], now)
        left = {
            name: [(each.oldest, number, each) for number, each in enumerate(found) if each.block_count]
            for name, found in by_share.items()
        }
        for heap in left.values():
            heapify(heap)
        while self.bytes_used > wanted:
            heap = max(
                (heap for heap in left.values() if heap),
                key=lambda heap: heap[0][2].share.bytes,
                default=[],
            )
            if not heap:
                return
            _, number, series = heappop(heap)
            series.drop_oldest_block()
            self._count_evicted(series)
            if series.block_count:
                heappush(heap, (series.oldest, number, series))
            else:
                self._forget(series)

    def _drop_stale(self, found: Iterable[BlockSeries], now: int) -> None:
        """Forget the series of objects that are gone."""
        for series in found:
            if now - series.newest > LATE_MILLISECONDS + 2 * series.interval:
                self._forget(series)
                self._count_evicted(series)

    def _count_evicted(self, series: BlockSeries) -> None:
        self.evicted += 1
        share = series.share
        share.evicted += 1
        if share.name and share.evicted == 1:
            log.warning(
                "plugin %s has %d series with %d bytes, more than any other, and the metric cache is full: "
                "it loses points",
                share.name,
                share.series,
                share.bytes,
            )

    # --- restarts --------------------------------------------------------------------------------

    def _restore(self, file: MetricFile) -> None:
        """Take over the blocks of a file; drop those that are damaged, of the future or too old."""
        for kind, milliseconds in file.retentions.items():
            self._keep(kind, milliseconds)
        names = {name.id: name for name in file.names}
        self._ids = max(names, default=0)
        now = unix_milliseconds(self._clock.now())
        blocks = self.blocks
        file.truncate(-(-self._max_bytes // SEGMENT_BYTES))
        used = blocks.load(file.segment_count)
        found = sorted((blocks.base(number), number) for number in used)
        damaged = 0
        for _, number in found:
            name = names.get(blocks.owner(number))
            if name is None or not is_whole(blocks.place(number)):
                damaged += 1
                blocks.free(number)
                continue
            by_identity = self._series.setdefault(name.kind, {})
            series = by_identity.get(name.identity)
            if series is None:
                series = BlockSeries(self, name.kind, name.identity, name.id, share=self.shares[""])
                series.share.series += 1
                by_identity[name.identity] = series
            first, last = blocks.base(number), blocks.newest(number)
            if first < series.newest or not now - self._longest <= last <= now + LATE_MILLISECONDS:
                blocks.free(number)
            else:
                series.adopt(number)
        for kind, declared in self._kinds.items():
            for series in list(self._series[kind].values()):
                if not series.block_count or len(series.identity) != len(declared.properties):
                    self._forget(series)
        self._compact(file)
        log.info("restored %d series; dropped %d damaged blocks", self.series_count, damaged)

    def _compact(self, file: MetricFile) -> None:
        try:
            file.compact(
                [_name_of(series) for each in self._series.values() for series in each.values() if series.id]
            )
        except OSError as error:
            log.warning("the names of series are not compacted: %s", error)


def _name_of(series: BlockSeries) -> SeriesName:
    return SeriesName(series.id, series.kind, series.identity)
