"""RemovePodsViolatingNodeTaints: evict pods that do not tolerate a taint of their node, except NoExecute.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removepodsviolatingnodetaints`.
"""

from collections.abc import Sequence

from koordpy.api import taints
from koordpy.api.core import Node, Pod, Taint
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns, selects

from .args import RemovePodsViolatingNodeTaintsArgs


class RemovePodsViolatingNodeTaints(UpstreamPlugin):
    """Deschedule by taints."""

    name = "RemovePodsViolatingNodeTaints"
    args: RemovePodsViolatingNodeTaintsArgs

    def __init__(self, args: RemovePodsViolatingNodeTaintsArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selects = selects(args.namespaces, args.label_selector)
        self._effects = {taints.NO_SCHEDULE}
        if args.include_prefer_no_schedule:
            self._effects.add(taints.PREFER_NO_SCHEDULE)
        self._included = None if args.included_taints is None else frozenset(args.included_taints)
        self._excluded = frozenset(args.excluded_taints)

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        """Process the nodes that have such taints."""
        async for node in in_turns(nodes, self.pace()):
            considered = self._considered(node)
            if not considered:
                continue
            for pod in self.handle.pods.active_on(node.metadata.name):
                taint = _untolerated(pod, considered)
                if taint is not None and self._selects(pod) and self.handle.evictor.filter(pod):
                    await self.evict(pod, _reason(taint))
        return SUCCESS

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node with such a taint that the pod does not tolerate."""
        if not self._selects(pod):
            return None
        taint = _untolerated(pod, self._considered(node))
        return None if taint is None else _reason(taint)

    def _considered(self, node: Node) -> list[Taint]:
        return [taint for taint in node.spec.taints if self._considers(taint)]

    def _considers(self, taint: Taint) -> bool:
        if taint.effect not in self._effects or _listed(taint, self._excluded):
            return False
        return self._included is None or _listed(taint, self._included)


def _listed(taint: Taint, names: frozenset[str]) -> bool:
    return taint.key in names or (bool(taint.value) and f"{taint.key}={taint.value}" in names)


def _untolerated(pod: Pod, considered: Sequence[Taint]) -> Taint | None:
    for taint in considered:
        if not taints.tolerated(pod.spec.tolerations, taint, comparison_operators=True):
            return taint
    return None


def _reason(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"the pod does not tolerate the taint {taint.key}{value}:{taint.effect} of its node"
