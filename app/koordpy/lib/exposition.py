"""The process's metrics in Prometheus' text format."""

import asyncio
from collections.abc import Iterable
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

from .cache_metrics import CacheMetrics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_CACHES: Final = CacheMetrics()


class _Collected(Collector):
    """Metrics that were collected."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> list[Metric]:
        return self._metrics


def _collected(prefixes: tuple[str, ...], without: tuple[str, ...]) -> _Collected:
    return _Collected(
        metric
        for metric in REGISTRY.collect()
        if metric.name.startswith(prefixes) and not metric.name.startswith(without)
    )


def exposition(prefixes: tuple[str, ...] = ("",), without: tuple[str, ...] = ()) -> bytes:
    """Return the metrics whose names have one of the prefixes, but none of those of `without`."""
    return generate_latest(_collected(prefixes, without))


async def written_aside(prefixes: tuple[str, ...] = ("",)) -> bytes:
    """Return the same, but write the text in a thread: that of many series takes long.

    The values are collected at once, in this thread, in which they change.
    """
    return await asyncio.to_thread(generate_latest, _collected(prefixes, ()))
