"""The Prometheus series of reports, with koordlet's names."""

from collections.abc import Mapping
from typing import Any, Final

from prometheus_client import Gauge

from koordpy.api import quantity
from koordpy.api.qos import PriorityClass

_USAGE: Final = ("node", "resource", "unit")
_NUMA_USAGE: Final = ("node", "numa_node_id", "resource", "unit")
NODE_USAGE: Final = Gauge("koordlet_node_metric_node_usage", "The node usage of NodeMetric.", _USAGE)
SYSTEM_USAGE: Final = Gauge("koordlet_node_metric_system_usage", "The system usage of NodeMetric.", _USAGE)
NUMA_NODE_USAGE: Final = Gauge(
    "koordlet_node_metric_numa_node_usage", "The usage of NUMA nodes in NodeMetric.", _NUMA_USAGE
)
NUMA_SYSTEM_USAGE: Final = Gauge(
    "koordlet_node_metric_numa_system_usage", "The system usage on NUMA nodes in NodeMetric.", _NUMA_USAGE
)
RECLAIMABLE: Final = Gauge(
    "koordlet_node_priority_resource_reclaimable",
    "Resources of a priority that can be reclaimed.",
    ("node", "priority", "resource", "unit"),
)
RECLAIMABLE_STATUS: Final = Gauge(
    "koordlet_node_resource_priority_reclaimable_status",
    "0 if the reclaimable resources of a priority are known, else 1.",
    ("node", "priority"),
)


def record_usage(node: str, status: Mapping[str, Any]) -> None:
    """Replace the series of usage by those of a report."""
    for gauge in (NODE_USAGE, SYSTEM_USAGE, NUMA_NODE_USAGE, NUMA_SYSTEM_USAGE):
        gauge.clear()
    usage = status["nodeMetric"]
    _record(NODE_USAGE, (node,), usage["nodeUsage"])
    _record(SYSTEM_USAGE, (node,), usage["systemUsage"])
    for numa in usage.get("numaUsages", ()):
        labels = (node, str(numa["numaNodeID"]))
        _record(NUMA_NODE_USAGE, labels, numa["nodeUsage"])
        _record(NUMA_SYSTEM_USAGE, labels, numa["systemUsage"])


def record_reclaimable(node: str, status: Mapping[str, Any]) -> None:
    """Record what can be reclaimed from prod pods; nothing if it is not known."""
    known = bool(status["prodReclaimableMetric"]["resource"])
    resources = status["prodReclaimableMetric"]["resource"].get("resources", {})
    filled = {"resources": {"cpu": "0", "memory": "0", **resources}}
    _record(RECLAIMABLE, (node, PriorityClass.PROD.value), filled)
    RECLAIMABLE_STATUS.labels(node, PriorityClass.PROD.value).set(0 if known else 1)


def _record(gauge: Gauge, labels: tuple[str, ...], usage: Mapping[str, Any]) -> None:
    resources = usage.get("resources", {})
    if "cpu" in resources:
        gauge.labels(*labels, "cpu", "core").set(quantity.milli_value(resources["cpu"]) / 1000)
    if "memory" in resources:
        gauge.labels(*labels, "memory", "byte").set(quantity.value(resources["memory"]))
