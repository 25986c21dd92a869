"""Gauges whose values are computed when they are scraped, so that keeping them current costs nothing."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

log = logging.getLogger(__name__)

Owner = TypeVar("Owner")
Values = Iterable[tuple[Sequence[str], float]]
"""The label values and the value of each series."""


class ScrapedGauge(Collector):
    """A gauge of one process. Its values are those of all owners that publish some and still exist."""

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str], registry: CollectorRegistry = REGISTRY
    ) -> None:
        self._name, self._documentation, self._labels = name, documentation, labels
        self._owners: WeakKeyDictionary[Any, Callable[[Any], Values]] = WeakKeyDictionary()
        registry.register(self)

    def publish(self, owner: Owner, values: Callable[[Owner], Values]) -> None:
        """Compute `values(owner)` at each scrape for as long as the owner exists."""
        self._owners[owner] = values

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric without values; the registry checks its name."""
        return [GaugeMetricFamily(self._name, self._documentation, labels=self._labels)]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric with its present values."""
        family = GaugeMetricFamily(self._name, self._documentation, labels=self._labels)
        for owner, values in list(self._owners.items()):
            try:
                for labels, value in values(owner):
                    family.add_metric(labels, value)
            except Exception:  # the other metrics are scraped nevertheless
                log.exception("metric %s cannot be computed", self._name)
        return [family]
