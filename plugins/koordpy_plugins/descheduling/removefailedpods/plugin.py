"""RemoveFailedPods: evict failed pods.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removefailedpods`.
"""

from collections.abc import Iterable, Sequence

from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.toolkit import container_states, pod_age
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns, selects

from .args import RemoveFailedPodsArgs


class RemoveFailedPods(UpstreamPlugin):
    """Deschedule failed pods."""

    name = "RemoveFailedPods"
    args: RemoveFailedPodsArgs

    def __init__(self, args: RemoveFailedPodsArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selects = selects(args.namespaces, args.label_selector)
        self._excluded_owners = frozenset(args.exclude_owner_kinds)
        self._reasons = frozenset(args.reasons)
        self._exit_codes = frozenset(args.exit_codes)

    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        """Process the failed pods of each node."""
        async for node in in_turns(nodes, self.pace()):
            chosen = [
                pod
                for pod in self.handle.pods.all_on(node.metadata.name)
                if self._is_wanted(pod) and self._selects(pod) and self.handle.evictor.filter(pod)
            ]
            for pod in chosen:
                await self.evict(pod, f"the pod failed{f': {pod.status.reason}' * bool(pod.status.reason)}")
        return SUCCESS

    def _is_wanted(self, pod: Pod) -> bool:
        if pod.status.phase != "Failed" or not self._is_old_enough(pod):
            return False
        if any(owner.kind in self._excluded_owners for owner in pod.metadata.owner_references):
            return False
        if self._reasons and self._reasons.isdisjoint(self._reasons_of(pod)):
            return False
        return not self._exit_codes or not self._exit_codes.isdisjoint(self._exit_codes_of(pod))

    def _is_old_enough(self, pod: Pod) -> bool:
        """Whether the pod has the least age; one from the future has it, since Go's number wraps around."""
        least = self.args.min_pod_lifetime_seconds
        if least is None:
            return True
        age = int(pod_age.seconds(pod, self.handle.clock.now()))
        return age % (1 << 64) >= least

    def _reasons_of(self, pod: Pod) -> Iterable[str]:
        """The reasons that are not empty."""
        reasons = [*container_states.reasons(pod.status.container_statuses), pod.status.reason]
        if self.args.including_init_containers:
            reasons += container_states.reasons(pod.status.init_container_statuses)
        return filter(None, reasons)

    def _exit_codes_of(self, pod: Pod) -> Iterable[int]:
        yield from container_states.exit_codes(pod.status.container_statuses)
        if self.args.including_init_containers:
            yield from container_states.exit_codes(pod.status.init_container_statuses)
