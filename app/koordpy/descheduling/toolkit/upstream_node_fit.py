"""Whether a pod could run on a node, as the Kubernetes descheduler checks: with anti-affinity and pod slots.

`node_fit` is Koordinator's own, weaker check. Here the first reason ends the check, and the node on which the
pod already runs needs no free resources for it. Source: `sigs.k8s.io/descheduler`, `pkg/descheduler/node`.
"""

from collections.abc import Iterable, Mapping

from koordpy.api import label_selector, node_affinity, quantity, resources, taints
from koordpy.api.core import Node, Pod, PodAffinityTerm
from koordpy.api.meta import ResourceList

from .pods import NodePods

_BASIC = ("cpu", "memory", "pods")
"""The unrequested amounts of these can be negative; of others that a node does not list it is 0."""

_MILLI = 1_000_000
_UNIT = 1_000_000_000


def refusal(pod: Pod, node: Node) -> str | None:
    """Return why cordon, labels or taints keep a pod from a node, None if they do not."""
    if node.spec.unschedulable:
        return "node is not schedulable"
    if not node_affinity.required(pod.spec).matches_node(node):
        return "pod node selector does not match the node label"
    if taints.find_untolerated(node.spec.taints, pod.spec.tolerations, comparison_operators=True):
        return "pod does not tolerate taints on the node"
    return None


class UpstreamNodeFit:
    """Checks against the current cluster; nothing is reserved."""

    def __init__(self, pods: NodePods) -> None:
        self._pods = pods

    def reason_against(self, pod: Pod, node: Node) -> str | None:
        """Return the first reason why a pod does not fit a node, None if it fits."""
        reason = refusal(pod, node)
        if reason is not None:
            return reason
        if self._repelled(pod, node):
            return "pod violates its required anti-affinity on the node"
        if pod.spec.node_name == node.metadata.name:
            return None
        return self._insufficient(resources.pod_request_nanos(pod), node)

    def fits_any(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        """Return whether a pod fits one of the nodes."""
        return any(self.reason_against(pod, node) is None for node in nodes)

    def fits_any_other(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        """Return whether a pod fits one of the nodes other than the one that it runs on."""
        return self.fits_any(pod, (node for node in nodes if node.metadata.name != pod.spec.node_name))

    def _repelled(self, pod: Pod, node: Node) -> bool:
        """Whether a pod on the node matches one of the pod's required anti-affinity terms, or one is invalid.

        The terms' namespace selectors are ignored, as are pods with the pod's name in any namespace.
        """
        affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
        terms = affinity.required_during_scheduling_ignored_during_execution if affinity else []
        if not terms:
            return False
        others = [
            other for other in self._active_on(node.metadata.name) if other.metadata.name != pod.metadata.name
        ]
        try:
            return any(
                _matches(term, pod, others) and term.topology_key in node.metadata.labels for term in terms
            )
        except label_selector.SelectorError:
            return True

    def _insufficient(self, requests: Mapping[str, int], node: Node) -> str | None:
        allocatable = node.status.allocatable
        requested = self._requested_on(node.metadata.name)
        if len(self._active_on(node.metadata.name)) + 1 > _offered(allocatable, "pods"):
            return "insufficient pods"
        for name, nanos in requests.items():
            left = 0
            if name in allocatable or name in _BASIC:
                unit = _MILLI if name == "cpu" else _UNIT
                left = (_offered(allocatable, name) - _rounded_up(requested.get(name, 0), unit)) * unit
            if _rounded_up(nanos, _MILLI) * _MILLI > left:
                return f"insufficient {name}"
        return None

    def _active_on(self, node_name: str) -> list[Pod]:
        return self._pods.active_on(node_name)

    def _requested_on(self, node_name: str) -> dict[str, int]:
        """The sum of the requests of a node's pods, in billionths."""
        requested: dict[str, int] = {}
        for pod in self._active_on(node_name):
            for name, nanos in resources.pod_request_nanos(pod).items():
                requested[name] = requested.get(name, 0) + nanos
        return requested


def _offered(allocatable: ResourceList, name: str) -> int:
    """What a node offers: cpu in thousandths, others whole."""
    return quantity.resource_value(name, allocatable[name]) if name in allocatable else 0


def _rounded_up(nanos: int, unit: int) -> int:
    return -(-nanos // unit)


def _matches(term: PodAffinityTerm, pod: Pod, others: Iterable[Pod]) -> bool:
    """Whether a term selects one of the other pods. Raises SelectorError."""
    namespaces = term.namespaces or [pod.metadata.namespace]
    selector = label_selector.of(term.label_selector)
    return any(
        other.metadata.namespace in namespaces and selector.matches(other.metadata.labels) for other in others
    )
