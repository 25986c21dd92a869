"""RemovePodsViolatingNodeAffinity: evict pods that no longer match their node, or prefer another one.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removepodsviolatingnodeaffinity`.
"""

import logging
from collections.abc import Sequence

from koordpy.api import node_affinity
from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.toolkit.node_fit_snapshot import Candidates, NodeFitSnapshot
from koordpy.descheduling.toolkit.nodes import is_ready
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns, selects

from .args import PREFERRED, REQUIRED, RemovePodsViolatingNodeAffinityArgs
from .preference import Preferences

log = logging.getLogger(__name__)

_MISMATCH = "the pod's node selector or required node affinity does not match its node"


class RemovePodsViolatingNodeAffinity(UpstreamPlugin):
    """Deschedule by node affinity."""

    name = "RemovePodsViolatingNodeAffinity"
    args: RemovePodsViolatingNodeAffinityArgs

    def __init__(self, args: RemovePodsViolatingNodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selects = selects(args.namespaces, args.label_selector)
        self._preferences: Preferences | None = None
        """Of the present run."""

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        """Process all nodes, once for each type."""
        self._preferences = Preferences(nodes)
        candidates = Candidates(NodeFitSnapshot(self.handle.pods), nodes)
        try:
            for type_ in self.args.node_affinity_type:
                if type_ not in (REQUIRED, PREFERRED):
                    log.error("%s: nodeAffinityType %r is not known", self.name, type_)
                    continue
                async for node in in_turns(nodes, self.pace()):
                    await self._process(type_, node, candidates, self._preferences)
        finally:
            self._preferences = None
        return SUCCESS

    async def _process(
        self, type_: str, node: Node, candidates: Candidates, preferences: Preferences
    ) -> None:
        violation = _required_violation if type_ == REQUIRED else preferences.violation
        chosen = [
            (pod, reason)
            for pod in self.handle.pods.active_on(node.metadata.name)
            if (reason := violation(pod, node)) is not None
            and self._selects(pod)
            and self.handle.evictor.filter(pod)
        ]
        for pod, reason in chosen:
            if candidates.fit(pod):
                await self.evict(pod, reason)
            else:
                self.handle.evictor.skipped((pod,), f"it fits no node; {reason}")

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node that the pod does not match, or prefers less than another node."""
        if not self._selects(pod):
            return None
        for type_ in self.args.node_affinity_type:
            if type_ == REQUIRED and (reason := _required_violation(pod, node)) is not None:
                return reason
            if type_ == PREFERRED:
                preferences = self._preferences or Preferences(list(filter(is_ready, self.handle.nodes())))
                if (reason := preferences.violation(pod, node)) is not None:
                    return reason
        return None


def _required_violation(pod: Pod, node: Node) -> str | None:
    """Return why a pod with required node affinity is on the wrong node; its node selector counts too."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required_during_scheduling_ignored_during_execution is None:
        return None
    return None if node_affinity.required(pod.spec).matches_node(node) else _MISMATCH
