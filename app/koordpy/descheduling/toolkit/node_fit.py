"""Whether a pod could run on a node, as the descheduler checks: less than a scheduler.

Ports, volumes, pod affinity and the number of pods are not checked. Source: Koordinator,
`pkg/descheduler/node/node.go`.
"""

from collections.abc import Iterable

from koordpy.api import node_affinity, quantity, taints
from koordpy.api.core import Node, Pod

from .node_requests import Amounts
from .pods import NodePods

_BASIC = ("cpu", "memory", "pods")
_MILLI = 1_000_000
_UNIT = 1_000_000_000


class NodeFit:
    """Checks against the current cluster.

    Nothing is reserved: two pods that fit a node one at a time may not fit it together.
    """

    def __init__(self, pods: NodePods) -> None:
        self._requests = pods.requests

    def reasons_against(self, pod: Pod, node: Node) -> list[str]:
        """Return every reason why a pod does not fit a node."""
        reasons = []
        if not node_affinity.required(pod.spec).matches_node(node):
            reasons.append("pod node selector does not match the node label")
        if taints.find_untolerated(node.spec.taints, pod.spec.tolerations) is not None:
            reasons.append("pod does not tolerate taints on the node")
        reasons += self._insufficient(pod, node)
        if node.spec.unschedulable:
            reasons.append("node is not schedulable")
        return reasons

    def fits(self, pod: Pod, node: Node) -> bool:
        """Return whether a pod fits a node."""
        return self.admits(pod, node) and not self._insufficient(pod, node)

    def admits(self, pod: Pod, node: Node) -> bool:
        """Return whether cordon, taints and labels allow a pod on a node, regardless of free resources."""
        return (
            not node.spec.unschedulable
            and taints.find_untolerated(node.spec.taints, pod.spec.tolerations) is None
            and node_affinity.required(pod.spec).matches_node(node)
        )

    def left(self, node: Node, resource: str) -> int:
        """Return the unrequested amount of a resource, in billionths; negative on an overcommitted node.

        For a resource that a node does not list this is always 0.
        """
        unit = _MILLI if resource == "cpu" else _UNIT
        allocatable = node.status.allocatable
        if resource not in allocatable and resource not in _BASIC:
            return 0
        offered = quantity.nano_value(allocatable[resource]) if resource in allocatable else 0
        requested = self._requests.on(node.metadata.name).get(resource, 0)
        return (_rounded_up(offered, unit) - _rounded_up(requested, unit)) * unit

    def fits_any(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        """Return whether a pod fits one of the nodes."""
        return any(self.fits(pod, node) for node in nodes)

    def fits_any_other(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        """Return whether a pod fits one of the nodes other than the one that it runs on."""
        return any(self.fits(pod, node) for node in nodes if node.metadata.name != pod.spec.node_name)

    def _insufficient(self, pod: Pod, node: Node) -> list[str]:
        """The requests that exceed the unrequested amounts. A request of 0 exceeds a negative one."""
        return [
            f"insufficient {name}"
            for name, nanos in self.requests_of(pod).items()
            if _rounded_up(nanos, _MILLI) * _MILLI > self.left(node, name)
        ]

    def requests_of(self, pod: Pod) -> Amounts:
        """Return what a pod requests, in billionths."""
        return self._requests.pods.of(pod)


def _rounded_up(nanos: int, unit: int) -> int:
    return -(-nanos // unit)
