"""The process's metrics in Prometheus' text format."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

from .cache_metrics import CacheMetrics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_CACHES: Final = CacheMetrics()


class _WithPrefix(Collector):
    """The metrics whose names have one of some prefixes."""

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._prefixes = prefixes

    def collect(self) -> Iterator[Metric]:
        return (metric for metric in REGISTRY.collect() if metric.name.startswith(self._prefixes))


def exposition(prefixes: tuple[str, ...] = ("",)) -> bytes:
    """Return the metrics whose names have one of the prefixes."""
    return generate_latest(_WithPrefix(prefixes))
