"""Metrics of quotas, with Koordinator's names.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/metrics.go` and `controller.go`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import Histogram
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from koordpy.api import extension, resource_list
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.resource_list import Quantities
from koordpy.api.scheme import DecodeError

from .state.amounts import integer
from .state.quota_info import QuotaInfo

UPDATE_SECONDS = Histogram(
    "scheduler_update_elastic_quota_status_duration_seconds",
    "Time of writing the status of an ElasticQuota, in seconds.",
    buckets=[0.001 * 2**n for n in range(15)],
)

_FIELDS: Final[Mapping[str, str]] = {
    "runtime": "runtime",
    "request": "request",
    "child-request": "child_request",
    "guaranteed": "guaranteed",
    "allocated": "allocated",
    "non-preemptible-request": "non_preemptible_request",
    "non-preemptible-used": "non_preemptible_used",
    "used": "used",
    "min": "min",
    "max": "max",
    "sharedWeight": "shared_weight",
}

Source = Callable[[], Iterable[tuple[ElasticQuota, QuotaInfo, str]]]
"""Returns the ElasticQuotas with their records and trees, each quota name once."""


class QuotaStatus(Collector):
    """The amounts of quotas, read when they are scraped: cpu in thousandths, others in whole units.

    Thousands of quotas have so many series that keeping them would cost more than the quotas themselves; and
    those of a quota that was deleted, moved or changed are gone with it.
    """

    _NAME: Final = "scheduler_elastic_quota_status"
    _TEXT: Final = "What an ElasticQuota guarantees, allows, requests, uses and is given."
    _LABELS: Final = ("name", "resource", "tree", "is_parent", "parent", "field")

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.source: Source | None = None
        """Set while this process leads; the others have no series."""
        registry.register(self)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric without values; the registry checks its name."""
        return [GaugeMetricFamily(self._NAME, self._TEXT, labels=self._LABELS)]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric."""
        [family] = self.describe()
        for quota, info, tree in self.source() if self.source is not None else ():
            is_parent = "true" if info.is_parent else "false"
            for field, amounts in _lists(quota, info):
                for resource, amount in amounts.items():
                    labels = (info.name, resource, tree, is_parent, info.parent_name, field)
                    family.add_metric(labels, integer(resource, amount))
        return [family]


def _lists(quota: ElasticQuota, info: QuotaInfo) -> Iterator[tuple[str, Quantities]]:
    for field, attribute in _FIELDS.items():
        yield field, getattr(info, attribute)
    if quota.metadata.labels.get(extension.LABEL_QUOTA_IS_ROOT) == "true":
        text = quota.metadata.annotations.get(extension.ANNOTATION_QUOTA_UNSCHEDULABLE_RESOURCE, "")
        try:
            yield "unschedulable-resource", (resource_list.parse(text) or {}) if text else {}
        except DecodeError:
            return


STATUS = QuotaStatus()
