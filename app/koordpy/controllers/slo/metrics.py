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


def count(counter: Counter, reason: str, *, ok: bool) -> None:
    """Count a step."""
    counter.labels("succeeded" if ok else "failed", reason).inc()
