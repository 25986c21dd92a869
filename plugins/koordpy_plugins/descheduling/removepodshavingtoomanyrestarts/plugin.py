"""RemovePodsHavingTooManyRestarts: evict pods whose containers restarted too often.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removepodshavingtoomanyrestarts`.
"""

from collections.abc import Iterable, Sequence

from koordpy.api.core import ContainerStatus, Node, Pod
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.toolkit import container_states
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns, selects
from koordpy.lib import go_sort
from koordpy.lib.counting import counted

from .args import RemovePodsHavingTooManyRestartsArgs


class RemovePodsHavingTooManyRestarts(UpstreamPlugin):
    """Deschedule by restarts."""

    name = "RemovePodsHavingTooManyRestarts"
    args: RemovePodsHavingTooManyRestartsArgs

    def __init__(self, args: RemovePodsHavingTooManyRestartsArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selects = selects(args.namespaces, args.label_selector)
        self._states = frozenset(args.states)

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        """Process the pods of each node in any phase, those with most restarts first."""
        least = self.args.pod_restart_threshold
        async for node in in_turns(nodes, self.pace()):
            chosen = [
                (restarts, pod)
                for pod in self.handle.pods.all_on(node.metadata.name)
                if (restarts := self._restarts(pod)) >= least
                and self._is_in_state(pod)
                and self._selects(pod)
                and self.handle.evictor.filter(pod)
            ]
            go_sort.sort(chosen, lambda first, second: first[0] > second[0])
            for restarts, pod in chosen:
                await self.evict(
                    pod,
                    f"its containers restarted {counted(restarts, 'time')}, podRestartThreshold is {least}",
                )
        return SUCCESS

    def _statuses(self, pod: Pod) -> Iterable[ContainerStatus]:
        yield from pod.status.container_statuses
        if self.args.including_init_containers:
            yield from pod.status.init_container_statuses

    def _restarts(self, pod: Pod) -> int:
        return sum(status.restart_count for status in self._statuses(pod))

    def _is_in_state(self, pod: Pod) -> bool:
        """Whether the pod's phase, or a reason for which a container waits, is listed, if any is."""
        if not self._states or pod.status.phase in self._states:
            return True
        return not self._states.isdisjoint(container_states.waiting_reasons(self._statuses(pod)))
