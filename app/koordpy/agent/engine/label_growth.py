"""Notices Prometheus metrics whose labels grow without end, and the plugin that they belong to.

A metric with a label per pod or request keeps every label value for ever. Beyond `MOST_CHILDREN` its values
are dropped, so that the agent does not run out of memory and `/metrics` can still be scraped.
"""

import logging
import sys
from collections.abc import Iterator
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

log = logging.getLogger(__name__)

MOST_CHILDREN: Final = 10_000
"""Combinations of label values of one metric."""


class LabelGrowth:
    """The metrics of one registry."""

    def __init__(self, registry: CollectorRegistry = REGISTRY, most: int = MOST_CHILDREN) -> None:
        self._registry, self._most = registry, most

    def grown(self) -> Iterator[tuple[str, str]]:
        """Drop the values of metrics that have too many; yield the module and a description of each.

        The module is that of the metric, "" if it is not known.
        """
        for metric in list(self._registry._collector_to_names):
            if not isinstance(metric, MetricWrapperBase):
                continue
            count = len(getattr(metric, "_metrics", ()))
            if count > self._most:
                name = metric._name
                metric.clear()
                log.error("metric %s had %d combinations of labels; they are dropped", name, count)
                yield _module_of(metric), f"metric {name} had {count} combinations of labels"


def _module_of(metric: MetricWrapperBase) -> str:
    for name, module in list(sys.modules.items()):
        if any(value is metric for value in list(vars(module).values())):
            return name
    return ""
