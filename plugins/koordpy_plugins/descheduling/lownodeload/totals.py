"""What each node and its prod pods use in total, kept current as NodeMetrics and pods change.

So a round adds up nothing: it reads four dicts per node, and the pods of hot nodes alone. Source:
Koordinator, `pkg/descheduler/framework/plugins/loadaware/utilization_util.go`.
"""

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from koordpy.api import qos, quantity
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import parse_time
from koordpy.cluster.derived_state import DerivedState, Snapshot

if TYPE_CHECKING:
    from koordpy.cluster.cluster import Cluster

log = logging.getLogger(__name__)

Amounts = dict[str, int]
"""Resource name to billionths."""


class NodeTotals(msgspec.Struct):
    """The pods of a node that have not ended, and what its NodeMetric reports."""

    pods: int = 0
    prod_pods: int = 0
    metric: NodeMetric | None = None
    """None too if it has no time or no node usage, or an invalid amount."""
    reported: datetime | None = None
    usage: Amounts = msgspec.field(default_factory=dict)
    """Of the system and of all reported pods, even deleted ones."""
    prod_usage: Amounts = msgspec.field(default_factory=dict)
    """Of the reported pods that are prod pods of the node; amounts of 0 are left out."""


class UsageTotals(DerivedState):
    """The totals of every node that has a NodeMetric or pods."""

    def __init__(self, cluster: "Cluster") -> None:
        super().__init__(cluster)
        self._nodes: dict[str, NodeTotals] = {}
        self._pods = cluster.store(Pod)
        self.follow(Pod, self._add_pod, self._change_pod, self._remove_pod)
        self.follow(NodeMetric, self._report, lambda _, metric: self._report(metric), self._forget)

    def of(self, node_name: str) -> NodeTotals | None:
        """Return the totals of a node, not to be changed; None if nothing is known of it."""
        return self._nodes.get(node_name)

    def snapshot(self) -> Snapshot:
        """Return the totals by node."""
        return {
            name: (each.pods, each.prod_pods, each.reported, dict(each.usage), dict(each.prod_usage))
            for name, each in self._nodes.items()
        }

    # --- pods ------------------------------------------------------------------------------------

    def _add_pod(self, pod: Pod) -> None:
        self._count(pod, 1)

    def _remove_pod(self, pod: Pod) -> None:
        self._count(pod, -1)

    def _change_pod(self, old: Pod, new: Pod) -> None:
        if (
            old.spec.node_name == new.spec.node_name
            and old.is_terminal == new.is_terminal
            and is_prod(old) == is_prod(new)
        ):
            return
        self._count(old, -1)
        self._count(new, 1)

    def _count(self, pod: Pod, sign: int) -> None:
        name = pod.spec.node_name
        if not name or pod.is_terminal:
            return
        totals = self._nodes.setdefault(name, NodeTotals())
        totals.pods += sign
        if is_prod(pod):
            totals.prod_pods += sign
            for entry in totals.metric.status.pods_metric if totals.metric else ():
                if (
                    entry is not None
                    and entry.name == pod.metadata.name
                    and entry.namespace == pod.metadata.namespace
                ):
                    _add(totals.prod_usage, amounts(entry.pod_usage.resources), sign)
        self._drop_if_empty(name)

    # --- NodeMetrics -----------------------------------------------------------------------------

    def _report(self, metric: NodeMetric) -> None:
        name, status = metric.metadata.name, metric.status
        self._forget(metric)
        if status.node_metric is None or not status.update_time:
            return
        try:
            reported = parse_time(status.update_time)
            usage = amounts(status.node_metric.system_usage.resources)
            prod_usage: Amounts = {}
            for entry in status.pods_metric:
                if entry is None:
                    continue
                used = amounts(entry.pod_usage.resources)
                _add(usage, used)
                pod = self._pods.get(entry.namespace, entry.name)
                if pod is not None and pod.spec.node_name == name and not pod.is_terminal and is_prod(pod):
                    _add(prod_usage, used)
        except ValueError as error:
            log.warning("NodeMetric %s is ignored: %s", name, error)
            return
        totals = self._nodes.setdefault(name, NodeTotals())
        totals.metric, totals.reported = metric, reported
        totals.usage, totals.prod_usage = usage, prod_usage

    def _forget(self, metric: NodeMetric) -> None:
        totals = self._nodes.get(metric.metadata.name)
        if totals is not None:
            totals.metric = totals.reported = None
            totals.usage, totals.prod_usage = {}, {}
            self._drop_if_empty(metric.metadata.name)

    def _drop_if_empty(self, name: str) -> None:
        totals = self._nodes[name]
        if not totals.pods and totals.metric is None:
            del self._nodes[name]


def is_prod(pod: Pod) -> bool:
    """Return whether the pod's priority class, by default by its QoS class, is prod.

    False if that depends on an invalid amount, which no API server lets pass.
    """
    try:
        return qos.priority_class(pod) is qos.PriorityClass.PROD
    except quantity.QuantityError:
        return False


def amounts(resources: Mapping[str, str | int | float]) -> Amounts:
    """Convert a resource list to billionths. Raises QuantityError."""
    return {name: quantity.nano_value(amount) for name, amount in resources.items()}


def _add(total: Amounts, more: Amounts, sign: int = 1) -> None:
    for name, amount in more.items():
        added = total.get(name, 0) + sign * amount
        if added:
            total[name] = added
        else:
            total.pop(name, None)
