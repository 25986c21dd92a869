"""Utilization of nodes by the requests of their pods, for HighNodeUtilization and LowNodeUtilization.

Amounts are exact integers, in billionths of the resource's unit; percentages are of whole units (cpu:
thousandths), rounded up. Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/nodeutilization`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from koordpy.api import quantity, resources, taints
from koordpy.api.core import Node, Pod, Taint
from koordpy.api.resource_names import CPU, MEMORY, PODS
from koordpy.lib import go_sort

from .upstream_pod_sorter import sort_by_priority

METRIC_RESOURCE = "MetricResource"
"""The resource whose thresholds apply to the result of a Prometheus query; every node has 100 of it."""

_MILLI = 1_000_000
_UNIT = 1_000_000_000

Amounts = dict[str, int]


def thresholds_problem(thresholds: Mapping[str, float]) -> str:
    """Return what is wrong with percentages, empty if they are valid."""
    if not thresholds:
        return "no resource threshold is configured"
    for resource in sorted(thresholds):
        if not 0 <= thresholds[resource] <= 100:
            return f"{resource} threshold not in [0, 100] range"
    return ""


def considered(thresholds: Iterable[str]) -> tuple[str, ...]:
    """Return the resources that count: those with thresholds, cpu, memory and pods."""
    return tuple(sorted({*thresholds, CPU, MEMORY, PODS}))


@dataclass(slots=True)
class NodeUtilization:
    """A node, its pods that are not terminal, and what they request of some resources."""

    node: Node
    pods: Sequence[Pod]
    used: Amounts
    capacity: Amounts

    @classmethod
    def of(cls, node: Node, pods: Sequence[Pod], names: Sequence[str]) -> "NodeUtilization":
        """Sum up the requests of some resources."""
        used = dict.fromkeys(names, 0)
        for pod in pods:
            for name, nanos in resources.pod_request_nanos(pod).items():
                if name in used and name != PODS:
                    used[name] += nanos
        used[PODS] = len(pods) * _UNIT
        return cls(node, pods, used, _capacity(node, names))

    @property
    def percentages(self) -> dict[str, float]:
        """The used percentage of the resources that the node has."""
        return {
            name: _counted(name, self.used[name]) / whole * 100 if whole > 0 else 0.0
            for name, nanos in self.capacity.items()
            for whole in (_counted(name, nanos),)
        }

    @property
    def total(self) -> int:
        """All used amounts as one number, by which nodes are sorted."""
        return sum(_counted(name, nanos) for name, nanos in self.used.items())

    def capped(self, thresholds: Mapping[str, float]) -> Amounts:
        """Return the capacity up to the thresholds; all of it for a resource without one."""
        capped = dict.fromkeys(self.used, 0)
        for name, nanos in self.capacity.items():
            if name in thresholds:
                capped[name] = int(thresholds[name] * 0.01 * _counted(name, nanos)) * _unit(name)
            else:
                capped[name] = nanos
        return capped


def _unit(name: str) -> int:
    return _MILLI if name == CPU else _UNIT


def _counted(name: str, nanos: int) -> int:
    """An amount in thousandths of cpu, or whole units, rounded up."""
    return -(-nanos // _unit(name))


def _capacity(node: Node, names: Sequence[str]) -> Amounts:
    listed = node.status.allocatable or node.status.capacity
    capacity = {name: quantity.nano_value(listed[name]) for name in names if name in listed}
    if METRIC_RESOURCE in names:
        capacity[METRIC_RESOURCE] = 100 * _UNIT
    return capacity


def is_below(percentages: Mapping[str, float], thresholds: Mapping[str, float]) -> bool:
    """Return whether no percentage exceeds its threshold."""
    return all(thresholds[name] >= percentages.get(name, 0) for name in thresholds)


def exceeded(percentages: Mapping[str, float], thresholds: Mapping[str, float]) -> list[str]:
    """Return the resources whose percentages exceed their thresholds."""
    return [name for name in sorted(thresholds) if thresholds[name] < percentages.get(name, 0)]


def around_mean(
    nodes: Iterable[NodeUtilization], low: Mapping[str, float], high: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return thresholds by distances below and above the mean of all nodes, from 0 to 100.

    A resource that no node has gets none.
    """
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    for node in nodes:
        for name, percent in node.percentages.items():
            if name in low:
                sums[name] = sums.get(name, 0.0) + percent
                counts[name] = counts.get(name, 0) + 1
    means = {name: sums[name] / counts[name] for name in sums}
    return (
        {name: min(100.0, max(0.0, mean - low[name])) for name, mean in means.items()},
        {name: min(100.0, max(0.0, mean + high[name])) for name, mean in means.items()},
    )


def by_total(nodes: Iterable[NodeUtilization], *, descending: bool) -> list[NodeUtilization]:
    """Return nodes in the order in which they are emptied."""
    entries = [(-node.total if descending else node.total, node) for node in nodes]
    go_sort.sort(entries, lambda first, second: first[0] < second[0])
    return [entry[1] for entry in entries]


class Destinations:
    """The nodes that take evicted pods together: what they have left, and which pods tolerate one of them."""

    def __init__(self, nodes: Iterable[tuple[NodeUtilization, Amounts]]) -> None:
        self.left: Amounts = {}
        """The sum of what each has left of the amounts that it is given."""
        self._taints: dict[bytes, Sequence[Taint]] = {}
        self._tolerating: dict[bytes, bool] = {}
        for node, available in nodes:
            for name, nanos in available.items():
                self.left[name] = self.left.get(name, 0) + nanos - node.used[name]
            of_node = node.node.spec.taints
            self._taints.setdefault(msgspec.msgpack.encode(of_node), of_node)

    @property
    def have_room(self) -> bool:
        """Whether something is left of every resource."""
        return all(nanos > 0 for nanos in self.left.values())

    def tolerated_by(self, pod: Pod) -> bool:
        """Return whether a pod tolerates all taints of one node, whatever their effects.

        A node with more taints than the pod has tolerations does not count.
        """
        tolerations = pod.spec.tolerations
        key = msgspec.msgpack.encode(tolerations)
        known = self._tolerating.get(key)
        if known is None:
            known = self._tolerating[key] = any(
                len(tolerations) >= len(of_node)
                and all(taints.tolerated(tolerations, taint, comparison_operators=True) for taint in of_node)
                for of_node in self._taints.values()
            )
        return known


@dataclass(slots=True)
class Source:
    """A node that is emptied."""

    node: NodeUtilization
    target: Amounts | None = field(default=None)
    """Until it uses no more than this of each resource; None for as long as there is room elsewhere."""

    @property
    def is_done(self) -> bool:
        """Whether no pod has to leave any more."""
        if self.target is None:
            return False
        return all(nanos <= self.target[name] for name, nanos in self.node.used.items())

    def removable(self, may_leave: Callable[[Pod], bool]) -> list[Pod]:
        """Return the pods that may leave, in the order in which they do."""
        return sort_by_priority([pod for pod in self.node.pods if may_leave(pod)])

    def moved(self, pod: Pod, destinations: Destinations) -> None:
        """Subtract an evicted pod here and there."""
        requests = resources.pod_request_nanos(pod)
        for name in destinations.left:
            nanos = _UNIT if name == PODS else requests.get(name, 0)
            self.node.used[name] -= nanos
            destinations.left[name] -= nanos
