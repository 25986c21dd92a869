"""Metrics of what caches and histories hold."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from . import byte_budget

HELD = "koordpy_cache_bytes"
LIMIT = "koordpy_cache_limit_bytes"
ENTRIES = "koordpy_cache_entries"
TOTAL = "koordpy_caches_bytes"


class CacheMetrics(Collector):
    """What the caches and histories of this process hold, by name and in total."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        held = GaugeMetricFamily(HELD, "Estimated bytes in a cache or history.", labels=["cache"])
        limit = GaugeMetricFamily(LIMIT, "Bytes that a cache or history may hold.", labels=["cache"])
        entries = GaugeMetricFamily(ENTRIES, "Entries of a cache or history.", labels=["cache"])
        found = byte_budget.usage()
        for name, used in found.items():
            held.add_metric([name], used.held)
            limit.add_metric([name], used.limit)
            entries.add_metric([name], used.entries)
        total = GaugeMetricFamily(TOTAL, "Estimated bytes in all caches and histories together.")
        total.add_metric([], sum(used.held for used in found.values()))
        yield from (held, limit, entries, total)

    def describe(self) -> Iterator[Metric]:
        """Return the names, so that another collector of the same cannot be registered."""
        return self.collect()
