"""PodLifeTime: evict pods that are old, or in some state, the oldest of the cluster first.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/podlifetime`.
"""

from collections.abc import Sequence

from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.toolkit import pod_age
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns, selects
from koordpy.lib import go_sort

from .args import PodLifeTimeArgs
from .criteria import Criteria


class PodLifeTime(UpstreamPlugin):
    """Deschedule by age and state."""

    name = "PodLifeTime"
    args: PodLifeTimeArgs

    def __init__(self, args: PodLifeTimeArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selects = selects(args.namespaces, args.label_selector)
        self._criteria = Criteria(args, handle.clock)

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        """Choose pods of all nodes in any phase, then evict them by age."""
        chosen: list[tuple[float, str, Pod]] = []
        async for node in in_turns(nodes, self.pace()):
            for pod in self.handle.pods.all_on(node.metadata.name):
                reason = self._criteria.reason(pod)
                if reason is not None and self._selects(pod) and self.handle.evictor.filter(pod):
                    chosen.append((pod_age.created(pod), reason, pod))
        go_sort.sort(chosen, lambda first, second: first[0] < second[0])
        for _, reason, pod in chosen:
            await self.evict(pod, reason)
        return SUCCESS
