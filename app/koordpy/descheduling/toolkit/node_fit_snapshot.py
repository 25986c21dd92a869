"""The Kubernetes descheduler's fit for many pods of one run: every node and every kind of pod is read once.

As `upstream_node_fit`, with each node as it was when it was first used; evictions of the run change nothing,
as in the descheduler. Source: `sigs.k8s.io/descheduler`, `pkg/descheduler/node`.
"""

from collections.abc import Sequence

import msgspec

from koordpy.api import resources
from koordpy.api.core import Node, Pod

from .pods import NodePods
from .upstream_node_fit import UpstreamNodeFit, refusal


def placement_key(pod: Pod) -> bytes:
    """Return a key that is equal for pods with equal tolerations, node selectors and required affinities."""
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return msgspec.msgpack.encode((spec.tolerations, spec.node_selector, required))


class NodeFitSnapshot(UpstreamNodeFit):
    """The nodes as they were when first used. Create a new one for each run."""

    def __init__(self, pods: NodePods) -> None:
        super().__init__(pods)
        self._active: dict[str, list[Pod]] = {}
        self._requested: dict[str, dict[str, int]] = {}

    def has_room(self, requests: dict[str, int], node: Node) -> bool:
        """Return whether a node has enough for requests, in billionths, and for one more pod."""
        return self._insufficient(requests, node) is None

    def is_repelled(self, pod: Pod, node: Node) -> bool:
        """Return whether required anti-affinity keeps a pod from a node."""
        return self._repelled(pod, node)

    def _active_on(self, node_name: str) -> list[Pod]:
        known = self._active.get(node_name)
        if known is None:
            known = self._active[node_name] = super()._active_on(node_name)
        return known

    def _requested_on(self, node_name: str) -> dict[str, int]:
        known = self._requested.get(node_name)
        if known is None:
            known = self._requested[node_name] = super()._requested_on(node_name)
        return known


class Candidates:
    """Some nodes, and which pods fit one of them."""

    def __init__(self, fit: NodeFitSnapshot, nodes: Sequence[Node]) -> None:
        self._fit = fit
        self._nodes = nodes
        self._admitting: dict[bytes, dict[str, Node]] = {}
        self._with_room: dict[tuple[bytes, tuple[tuple[str, int], ...]], list[str]] = {}

    def fit(self, pod: Pod) -> bool:
        """Return whether a pod fits one of the nodes; on its own it needs no free resources."""
        own = self._admitting_nodes(placement_key(pod), pod).get(pod.spec.node_name)
        if own is not None and not self._fit.is_repelled(pod, own):
            return True
        return self.other_fits(pod)

    def other_fits(self, pod: Pod) -> bool:
        """Return whether a pod fits one of the nodes other than the one that it runs on."""
        key = placement_key(pod)
        requests = resources.pod_request_nanos(pod)
        affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
        if affinity is not None and affinity.required_during_scheduling_ignored_during_execution:
            return any(
                self._fit.has_room(requests, node) and not self._fit.is_repelled(pod, node)
                for name, node in self._admitting_nodes(key, pod).items()
                if name != pod.spec.node_name
            )
        return any(name != pod.spec.node_name for name in self._two_with_room(key, requests, pod))

    def _admitting_nodes(self, key: bytes, pod: Pod) -> dict[str, Node]:
        known = self._admitting.get(key)
        if known is None:
            known = self._admitting[key] = {
                node.metadata.name: node for node in self._nodes if refusal(pod, node) is None
            }
        return known

    def _two_with_room(self, key: bytes, requests: dict[str, int], pod: Pod) -> list[str]:
        """The first two admitting nodes with enough free resources: at least one is not a pod's own."""
        kind = key, tuple(sorted(requests.items()))
        known = self._with_room.get(kind)
        if known is None:
            known = self._with_room[kind] = []
            for name, node in self._admitting_nodes(key, pod).items():
                if self._fit.has_room(requests, node):
                    known.append(name)
                    if len(known) == 2:
                        break
        return known
