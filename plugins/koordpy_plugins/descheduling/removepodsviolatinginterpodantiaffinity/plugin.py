"""RemovePodsViolatingInterPodAntiAffinity: evict pods whose required anti-affinity other pods violate.

When one of a pair is evicted, the other may stay. Source: `sigs.k8s.io/descheduler`,
`pkg/framework/plugins/removepodsviolatinginterpodantiaffinity`.
"""

from collections.abc import Sequence

from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.toolkit.upstream_pod_sorter import sort_by_priority
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns, selects

from .args import RemovePodsViolatingInterPodAntiAffinityArgs
from .violations import Violations, has_terms, repels


class RemovePodsViolatingInterPodAntiAffinity(UpstreamPlugin):
    """Deschedule by anti-affinity."""

    name = "RemovePodsViolatingInterPodAntiAffinity"
    args: RemovePodsViolatingInterPodAntiAffinityArgs

    def __init__(self, args: RemovePodsViolatingInterPodAntiAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selects = selects(args.namespaces, args.label_selector)
        self._violations: Violations | None = None
        """Of the present run."""

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        """Process the nodes on which a pod has such terms."""
        pace = self.pace()
        by_node: dict[str, list[Pod]] = {}
        async for node in in_turns(nodes, pace):
            active = self.handle.pods.active_on(node.metadata.name)
            by_node[node.metadata.name] = [pod for pod in active if self._selects(pod)]
        violations = self._violations = Violations(nodes, by_node)
        try:
            async for node in in_turns(nodes, pace):
                pods = by_node[node.metadata.name]
                if not any(map(has_terms, pods)):
                    continue
                for pod in sort_by_priority(pods):
                    reason = violations.reason(pod, node)
                    if (
                        reason is not None
                        and self.handle.evictor.filter(pod)
                        and await self.evict(pod, reason)
                    ):
                        violations.remove(pod)
        finally:
            self._violations = None
        return SUCCESS

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node where the pod's terms, or those of pods there, would be violated."""
        if not self._selects(pod):
            return None
        violations = self._violations
        if violations is None:
            nodes = self.handle.nodes()
            by_node = {
                item.metadata.name: list(
                    filter(self._selects, self.handle.pods.active_on(item.metadata.name))
                )
                for item in nodes
            }
            violations = Violations(nodes, by_node)
        others = [other for other in pods if self._selects(other)]
        if (reason := violations.reason_there(pod, node, others)) is not None:
            return reason
        for other in others:
            if repels(other, pod):
                return f"the required anti-affinity of pod {other.metadata.key} there is to this pod"
        return None
