"""The usage of a node and its pods, from its NodeMetric.

Amounts are integers of billionths of a core, a byte, a pod, so that sums and comparisons are exact. Source:
Koordinator, `pkg/descheduler/framework/plugins/loadaware/utilization_util.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from koordpy.api import extension, qos, quantity
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import parse_time
from koordpy.api.quantity import QuantityError
from koordpy.api.scheme import MALFORMED

Amounts = dict[str, int]
"""Resource name to billionths."""

CPU, PODS = "cpu", "pods"
UNIT = 1_000_000_000
MILLI = 1_000_000


@dataclass
class NodeUsage:
    """One measured node. `usage` and `prod_usage` change as evictions are planned."""

    node: Node
    allocatable: Amounts
    usage: Amounts
    prod_usage: Amounts
    pods: list[Pod]
    prod_pods: list[Pod]
    pod_usage: Mapping[str, Amounts]
    """Usage by `namespace/name`, including deleted pods."""
    low: Amounts = field(default_factory=dict)
    high: Amounts = field(default_factory=dict)
    prod_low: Amounts = field(default_factory=dict)
    prod_high: Amounts = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    def live(self, prod: bool) -> tuple[Amounts, Amounts]:
        """Return usage and high thresholds, of the whole node or of its prod pods."""
        return (self.prod_usage, self.prod_high) if prod else (self.usage, self.high)


def measure(
    node: Node,
    pods: Sequence[Pod],
    metric: NodeMetric | None,
    resources: Iterable[str],
    now: datetime,
    expiration_seconds: int,
) -> NodeUsage | None:
    """Return the usage of a node, or None without an unexpired NodeMetric.

    `pods` are the node's pods that have not ended. Usage is the system's plus that of every pod in the
    NodeMetric; prod usage that of the given prod pods only.
    """
    if metric is None or metric.status.node_metric is None or not metric.status.update_time:
        return None
    if now - parse_time(metric.status.update_time) >= timedelta(seconds=expiration_seconds):
        return None
    prod_pods = [pod for pod in pods if qos.priority_class(pod) is qos.PriorityClass.PROD]
    prod_keys = {pod.metadata.key for pod in prod_pods}
    usage = dict.fromkeys(resources, 0)
    prod_usage = dict.fromkeys(resources, 0)
    _add(usage, amounts(metric.status.node_metric.system_usage.resources))
    pod_usage: dict[str, Amounts] = {}
    for entry in metric.status.pods_metric:
        if entry is None:
            continue
        key = f"{entry.namespace}/{entry.name}"
        used = pod_usage[key] = amounts(entry.pod_usage.resources)
        _add(usage, used)
        if key in prod_keys:
            _add(prod_usage, used)
    usage[PODS] = len(pods) * UNIT
    prod_usage[PODS] = len(prod_pods) * UNIT
    return NodeUsage(node, raw_allocatable(node), usage, prod_usage, list(pods), prod_pods, pod_usage)


def raw_allocatable(node: Node) -> Amounts:
    """Return a node's unamplified capacity: from the annotation if it can be parsed, else from the status."""
    text = node.metadata.annotations.get(extension.ANNOTATION_NODE_RAW_ALLOCATABLE)
    if text is not None:
        try:
            raw = msgspec.json.decode(text, type=dict[str, str | int | float | None] | None)
            if raw is not None:
                return {name: quantity.from_wire(amount).nano_value() for name, amount in raw.items()}
        except (*MALFORMED, QuantityError):
            pass
    return amounts(node.status.allocatable)


def amounts(resources: Mapping[str, str | int | float]) -> Amounts:
    """Convert a resource list to billionths."""
    return {name: quantity.nano_value(amount) for name, amount in resources.items()}


def counted(name: str, nanos: int) -> int:
    """Return an amount in the unit of its resource, rounded up: milli-cpu, else units."""
    return -(-nanos // (MILLI if name == CPU else UNIT))


def milli(nanos: int) -> int:
    """Return an amount in thousandths, rounded up."""
    return -(-nanos // MILLI)


def of_counted(name: str, number: int) -> int:
    """Return an amount in the unit of its resource as billionths."""
    return number * (MILLI if name == CPU else UNIT)


def _add(total: Amounts, more: Amounts) -> None:
    for name in total:
        total[name] += more.get(name, 0)
