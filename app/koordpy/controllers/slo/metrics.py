"""Metrics of the SLO controllers, with koord-manager's names.

What only increases is a gauge here, too: the client library would add `_total` to the name of a counter.
Source: Koordinator, `pkg/slo-controller/metrics`.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final

from prometheus_client import Gauge
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

_STATUS = ["status", "reason"]

NODE_RESOURCE_RECONCILES = Gauge(
    "slo_controller_node_resource_reconcile_count",
    "Steps of reconciling the resources of nodes, by result.",
    _STATUS,
)
NODE_METRIC_RECONCILES = Gauge(
    "slo_controller_nodemetric_reconcile_count", "Steps of reconciling NodeMetrics, by result.", _STATUS
)
NODE_METRIC_SPECS = Gauge(
    "slo_controller_nodemetric_spec_parse_count", "Specs of NodeMetrics computed, by result.", _STATUS
)
NODE_SLO_RECONCILES = Gauge(
    "slo_controller_nodeslo_reconcile_count", "Steps of reconciling NodeSLOs, by result.", _STATUS
)
NODE_SLO_SPECS = Gauge(
    "slo_controller_nodeslo_spec_parse_count", "Sections of NodeSLOs computed, by result.", _STATUS
)


class Runs:
    """How often one stage of a plugin ended in one way."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class PluginRuns(Collector):
    """Stages of noderesource plugins run, by result.

    A stage of a plugin takes microseconds, and a counter of prometheus_client takes as long: these are plain
    numbers that are read when they are scraped.
    """

    _NAME: Final = "slo_controller_node_resource_run_plugin_status"
    _TEXT: Final = "Stages of noderesource plugins run, by result."

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._runs: dict[tuple[str, str, str], Runs] = {}
        registry.register(self)

    def of(self, plugin: str, stage: str, *, ok: bool) -> Runs:
        """Return what counts the runs of a stage that succeeded, or failed."""
        return self._runs.setdefault((plugin, "succeeded" if ok else "failed", stage), Runs())

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric without values; the registry checks its name."""
        return [GaugeMetricFamily(self._NAME, self._TEXT, labels=["plugin", *_STATUS])]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric."""
        [family] = self.describe()
        for labels, runs in list(self._runs.items()):
            family.add_metric(labels, runs.count)
        return [family]


class Allocatable(Collector):
    """Resources of nodes as last computed, which may not have been written."""

    _NAME: Final = "slo_controller_node_extended_resource_allocatable_internal"
    _TEXT: Final = "Resources of a node as last computed, which may not have been written."

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._amounts: dict[tuple[str, str], dict[str, float]] = {}
        registry.register(self)

    def of(self, resource: str, unit: str) -> dict[str, float]:
        """Return the amounts of a resource by node, to be changed in place."""
        return self._amounts.setdefault((resource, unit), {})

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric without values; the registry checks its name."""
        return [GaugeMetricFamily(self._NAME, self._TEXT, labels=["node", "resource", "unit"])]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the metric."""
        [family] = self.describe()
        for (resource, unit), amounts in list(self._amounts.items()):
            for node, amount in list(amounts.items()):
                family.add_metric((node, resource, unit), amount)
        return [family]


PLUGIN_RUNS = PluginRuns()
ALLOCATABLE = Allocatable()


class NodeGauges:
    """The gauges of one plugin's resources, each with its unit."""

    def __init__(self, *resources: tuple[str, str]) -> None:
        self._by_resource = [ALLOCATABLE.of(*resource) for resource in resources]

    def set(self, node: str, *amounts: float) -> None:
        """Set the gauges of a node, in the order of the resources."""
        for by_node, amount in zip(self._by_resource, amounts, strict=True):
            by_node[node] = amount

    def remove(self, node: str) -> None:
        """Remove the gauges of a node that is gone."""
        for by_node in self._by_resource:
            by_node.pop(node, None)


def count(counter: Gauge, reason: str, *, ok: bool) -> None:
    """Count a step."""
    _child(counter, reason, ok).inc()


@cache
def _child(counter: Gauge, reason: str, ok: bool) -> Gauge:
    """Return the counter of a step and result; looking it up by its labels takes longer than counting."""
    return counter.labels("succeeded" if ok else "failed", reason)
