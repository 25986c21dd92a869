"""Metrics of the SLO controllers, with koord-manager's names.

Source: Koordinator, `pkg/slo-controller/metrics`.
"""

from prometheus_client import Counter, Gauge

_STATUS = ["status", "reason"]

NODE_RESOURCE_RECONCILES = Counter(
    "slo_controller_node_resource_reconcile_count",
    "Steps of reconciling the resources of nodes, by result.",
    _STATUS,
)
NODE_METRIC_RECONCILES = Counter(
    "slo_controller_nodemetric_reconcile_count", "Steps of reconciling NodeMetrics, by result.", _STATUS
)
NODE_METRIC_SPECS = Counter(
    "slo_controller_nodemetric_spec_parse_count", "Specs of NodeMetrics computed, by result.", _STATUS
)
NODE_SLO_RECONCILES = Counter(
    "slo_controller_nodeslo_reconcile_count", "Steps of reconciling NodeSLOs, by result.", _STATUS
)
NODE_SLO_SPECS = Counter(
    "slo_controller_nodeslo_spec_parse_count", "Sections of NodeSLOs computed, by result.", _STATUS
)
PLUGIN_RUNS = Counter(
    "slo_controller_node_resource_run_plugin_status",
    "Stages of noderesource plugins run, by result.",
    ["plugin", *_STATUS],
)
ALLOCATABLE = Gauge(
    "slo_controller_node_extended_resource_allocatable_internal",
    "Resources of a node as last computed, which may not have been written.",
    ["node", "resource", "unit"],
)


class NodeGauges:
    """The gauges of one plugin's resources, kept by node: looking one up by its labels takes longer than the
    rest of a small computation.
    """

    def __init__(self, *resources: tuple[str, str]) -> None:
        self._resources = resources
        self._by_node: dict[str, tuple[Gauge, ...]] = {}

    def set(self, node: str, *amounts: float) -> None:
        """Set the gauges of a node, in the order of the resources (each with its unit)."""
        gauges = self._by_node.get(node)
        if gauges is None:
            gauges = tuple(ALLOCATABLE.labels(node, *resource) for resource in self._resources)
            self._by_node[node] = gauges
        for gauge, amount in zip(gauges, amounts, strict=True):
            gauge.set(amount)

    def remove(self, node: str) -> None:
        """Remove the gauges of a node that is gone."""
        if self._by_node.pop(node, None) is not None:
            for resource in self._resources:
                ALLOCATABLE.remove(node, *resource)


def count(counter: Counter, reason: str, *, ok: bool) -> None:
    """Count a step."""
    counter.labels("succeeded" if ok else "failed", reason).inc()
