"""The process's metrics in Prometheus' text format."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

from .cache_metrics import CacheMetrics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_CACHES: Final = CacheMetrics()


class _Part(Collector):
    """The metrics whose names have one of some prefixes, and none of some others."""

    def __init__(self, prefixes: tuple[str, ...], without: tuple[str, ...]) -> None:
        self._prefixes, self._without = prefixes, without

    def collect(self) -> Iterator[Metric]:
        for metric in REGISTRY.collect():
            if metric.name.startswith(self._prefixes) and not metric.name.startswith(self._without):
                yield metric


def exposition(prefixes: tuple[str, ...] = ("",), without: tuple[str, ...] = ()) -> bytes:
    """Return the metrics whose names have one of the prefixes, but none of those of `without`."""
    return generate_latest(_Part(prefixes, without))
