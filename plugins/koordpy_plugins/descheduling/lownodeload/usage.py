"""The usage of a node and its pods in one round.

Amounts are integers of billionths of a core, a byte, a pod, so that sums and comparisons are exact. Source:
Koordinator, `pkg/descheduler/framework/plugins/loadaware/utilization_util.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from koordpy.api import extension, quantity
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.quantity import QuantityError
from koordpy.api.scheme import MALFORMED
from koordpy.lib import duration

from .totals import Amounts, NodeTotals, amounts, is_prod

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
    pods: list[Pod] = field(default_factory=list)
    prod_pods: list[Pod] = field(default_factory=list)
    pod_usage: Mapping[str, Amounts] = field(default_factory=dict)
    """Usage by `namespace/name`, including deleted pods."""
    low: Amounts = field(default_factory=dict)
    high: Amounts = field(default_factory=dict)
    prod_low: Amounts = field(default_factory=dict)
    prod_high: Amounts = field(default_factory=dict)
    metric: NodeMetric | None = None

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    def live(self, prod: bool) -> tuple[Amounts, Amounts]:
        """Return usage and high thresholds, of the whole node or of its prod pods."""
        return (self.prod_usage, self.prod_high) if prod else (self.usage, self.high)


def measure(
    node: Node, totals: NodeTotals | None, resources: Iterable[str], now: datetime, expiration_seconds: int
) -> NodeUsage | None:
    """Return the usage of a node without its pods (see `read_pods`), None without an unexpired NodeMetric.

    Usage is the system's plus that of every pod in the NodeMetric; prod usage that of the node's prod pods
    only.
    """
    if totals is None or totals.metric is None or totals.reported is None:
        return None
    if now - totals.reported >= duration.of_seconds(expiration_seconds):
        return None
    usage = {name: totals.usage.get(name, 0) for name in resources}
    prod_usage = {name: totals.prod_usage.get(name, 0) for name in resources}
    usage[PODS] = totals.pods * UNIT
    prod_usage[PODS] = totals.prod_pods * UNIT
    return NodeUsage(node, raw_allocatable(node), usage, prod_usage, metric=totals.metric)


def read_pods(node: NodeUsage, pods: Sequence[Pod]) -> None:
    """Add the pods of a measured node, in this order, and their usages. `pods` have not ended."""
    node.pods = list(pods)
    node.prod_pods = [pod for pod in pods if is_prod(pod)]
    entries = [] if node.metric is None else node.metric.status.pods_metric
    node.pod_usage = {
        f"{entry.namespace}/{entry.name}": amounts(entry.pod_usage.resources)
        for entry in entries
        if entry is not None
    }


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


def unit(name: str) -> int:
    """Return the unit in which a resource is counted, in billionths: milli-cpu, else whole units."""
    return MILLI if name == CPU else UNIT


def counted(name: str, nanos: int) -> int:
    """Return an amount in the unit of its resource, rounded up."""
    return -(-nanos // unit(name))


def milli(nanos: int) -> int:
    """Return an amount in thousandths, rounded up."""
    return -(-nanos // MILLI)


def of_counted(name: str, number: int) -> int:
    """Return an amount in the unit of its resource as billionths."""
    return number * unit(name)
