"""The metric cache as a service of the node agent: koordlet's flags, its file, the removal of old points."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.toolkit.scraped_gauge import ScrapedGauge
from koordpy.lib.clock import Clock

from .cache import MAX_BYTES, RETENTION, MetricCache
from .file import FileError, MetricFile

log = logging.getLogger(__name__)

PATH: Final = "tsdb-path"
_LEAST_BYTES: Final = 1 << 20

_FLAGS: Final = (
    (PATH, "/metric-data/", "An existing folder in which metrics survive a restart; empty: memory alone."),
    ("tsdb-retention-duration", RETENTION, "The longest time that any metric is kept."),
    ("tsdb-max-bytes", MAX_BYTES, "The size of all metrics, in memory and in the file."),
    ("tsdb-enable-prometheus-metric", True, "Export the size of the metric cache."),
    ("metric-gc-interval-seconds", 300, "The interval at which old metrics are removed."),
)
_WITHOUT_EFFECT: Final = (
    ("metric-expire-seconds", 1800, "what is not a series is replaced, and never expires"),
    ("tsdb-stripe-size", 16384, "the metric cache has no locks"),
    ("tsdb-wal-segment-size", 1 << 20, "the metric cache has no write-ahead log"),
    ("tsdb-max-block-chunk-segment-size", 5 << 20, "blocks have a fixed size"),
    ("tsdb-min-block-duration", timedelta(minutes=10), "blocks have a fixed size"),
    ("tsdb-max-block-duration", timedelta(minutes=10), "blocks have a fixed size"),
    ("tsdb-head-chunks-write-buffer-size", 1 << 20, "points are written without a buffer"),
)

_SERIES: Final = ScrapedGauge("prometheus_tsdb_head_series", "Series of the metric cache.", ())
_BYTES: Final = ScrapedGauge("prometheus_tsdb_storage_blocks_bytes", "Bytes of the metric cache.", ())
_EVICTED: Final = ScrapedGauge(
    "prometheus_tsdb_size_retentions_total", "Times metrics were dropped because of --tsdb-max-bytes.", ()
)
_SHARE_SERIES: Final = ScrapedGauge(
    "koordpy_agent_plugin_series", "Series that a plugin has in the metric cache.", ("plugin",)
)
_SHARE_BYTES: Final = ScrapedGauge(
    "koordpy_agent_plugin_series_bytes", "Bytes of a plugin's series in the metric cache.", ("plugin",)
)
_SHARE_EVICTED: Final = ScrapedGauge(
    "koordpy_agent_plugin_series_evictions_total",
    "Times that a plugin lost points because it had most of a full metric cache.",
    ("plugin",),
)


class MetricCacheService:
    """Holds the cache of the node's metrics, and removes what is old."""

    name = "metric-cache"

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare koordlet's flags."""
        for name, default, description in _FLAGS:
            flags.declare(name, default, description)
        for name, default, reason in _WITHOUT_EFFECT:
            flags.declare(name, default, f"Accepted without effect: {reason}.")

    def __init__(
        self,
        flags: FlagSet,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Open the cache. A folder that cannot be used is reported, and metrics are in memory alone.

        Raises ValueError for a value of a flag that is out of range.
        """
        self._sleep = sleep
        self._interval = _at_least(flags, "metric-gc-interval-seconds", 1)
        for name, default, reason in _WITHOUT_EFFECT:
            if flags.values[name] != default:
                log.warning("flag --%s has no effect: %s", name, reason)
        retention = flags.duration("tsdb-retention-duration")
        if retention <= timedelta():
            raise ValueError(f"flag tsdb-retention-duration: got {retention}, expected a duration above 0")
        self.cache = MetricCache(
            clock, retention, _at_least(flags, "tsdb-max-bytes", _LEAST_BYTES), _file(flags.text(PATH))
        )
        if flags.boolean("tsdb-enable-prometheus-metric"):
            _SERIES.publish(self.cache, lambda cache: [((), cache.series_count)])
            _BYTES.publish(self.cache, lambda cache: [((), cache.bytes_used)])
            _EVICTED.publish(self.cache, lambda cache: [((), cache.evicted)])
            for gauge, what in (
                (_SHARE_SERIES, "series"),
                (_SHARE_BYTES, "bytes"),
                (_SHARE_EVICTED, "evicted"),
            ):
                gauge.publish(self.cache, partial(_of_plugins, what))

    async def run(self) -> None:
        """Remove old points at an interval, until cancelled."""
        while True:
            await self._sleep(self._interval)
            self.cache.collect()

    def not_ready(self) -> str | None:
        """Return None."""
        return None


def _file(path: str) -> MetricFile | None:
    if not path:
        return None
    try:
        return MetricFile(Path(path))
    except FileError as error:
        log.warning("metrics do not survive a restart: --%s: %s", PATH, error)
        return None


def _at_least(flags: FlagSet, name: str, least: int) -> int:
    value = flags.integer(name)
    if value < least:
        raise ValueError(f"flag {name}: got {value}, expected at least {least}")
    return value


def _of_plugins(what: str, cache: MetricCache) -> Iterator[tuple[tuple[str], float]]:
    for name, share in cache.shares.items():
        if name and (share.series or share.evicted):
            yield (name,), getattr(share, what)
