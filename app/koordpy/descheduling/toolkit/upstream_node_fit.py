"""Whether a pod could run on a node, as the Kubernetes descheduler checks: with anti-affinity and pod slots.

`node_fit` is Koordinator's own, weaker check. Here the first reason ends the check, and the node on which the
pod already runs needs no free resources for it. Source: `sigs.k8s.io/descheduler`, `pkg/descheduler/node`.
"""

from collections.abc import Iterable

from koordpy.api import label_selector, node_affinity, resources, taints
from koordpy.api.core import Node, Pod, PodAffinityTerm

from .pods import NodePods

_BASIC = ("cpu", "memory", "pods")
"""The unrequested amounts of these can be negative; of others that a node does not list it is 0."""


class UpstreamNodeFit:
    """Checks against the current cluster; nothing is reserved."""

    def __init__(self, pods: NodePods) -> None:
        self._pods = pods

    def reason_against(self, pod: Pod, node: Node) -> str | None:
        """Return the first reason why a pod does not fit a node, None if it fits."""
        if node.spec.unschedulable:
            return "node is not schedulable"
        if not node_affinity.required(pod.spec).matches_node(node):
            return "pod node selector does not match the node label"
        if taints.find_untolerated(node.spec.taints, pod.spec.tolerations, comparison_operators=True):
            return "pod does not tolerate taints on the node"
        if self._repelled(pod, node):
            return "pod violates its required anti-affinity on the node"
        return self._insufficient(pod, node)

    def fits_any(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        """Return whether a pod fits one of the nodes."""
        return any(self.reason_against(pod, node) is None for node in nodes)

    def fits_any_other(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        """Return whether a pod fits one of the nodes other than the one that it runs on."""
        return self.fits_any(pod, (node for node in nodes if node.metadata.name != pod.spec.node_name))

    def _repelled(self, pod: Pod, node: Node) -> bool:
        """Whether a pod on the node itself matches one of the pod's required anti-affinity terms."""
        affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
        terms = affinity.required_during_scheduling_ignored_during_execution if affinity else []
        terms = [term for term in terms if term.topology_key in node.metadata.labels]
        if not terms:
            return False
        others = [
            other
            for other in self._pods.active_on(node.metadata.name)
            if other.metadata.name != pod.metadata.name
        ]
        return any(_matches(term, pod, other) for term in terms for other in others)

    def _insufficient(self, pod: Pod, node: Node) -> str | None:
        if pod.spec.node_name == node.metadata.name:
            return None
        placed = self._pods.active_on(node.metadata.name)
        allocatable = resources.node_allocatable(node)
        if len(placed) + 1 > allocatable.get("pods", 0):
            return "insufficient pods"
        requested: dict[str, int] = {}
        for other in placed:
            for name, amount in resources.pod_request_vector(other).items():
                requested[name] = requested.get(name, 0) + amount
        for name, amount in resources.pod_request_vector(pod).items():
            left = 0
            if name in allocatable or name in _BASIC:
                left = allocatable.get(name, 0) - requested.get(name, 0)
            if amount > left:
                return f"insufficient {name}"
        return None


def _matches(term: PodAffinityTerm, pod: Pod, other: Pod) -> bool:
    namespaces = term.namespaces or [pod.metadata.namespace]
    if other.metadata.namespace not in namespaces:
        return False
    try:
        return label_selector.of(term.label_selector).matches(other.metadata.labels)
    except label_selector.SelectorError:
        return False
