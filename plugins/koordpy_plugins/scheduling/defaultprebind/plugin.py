"""The last check of a pod before it is bound.

Koordinator's plugin writes the changes of PreBind plugins in one patch, with the pod's UID as a precondition,
and refuses pods that are being deleted. Here that patch is the Binding itself: its annotations and the node
are one write, with the same precondition. Only the early refusal remains. Source: Koordinator,
`pkg/scheduler/plugins/defaultprebind`.
"""

from koordpy.api.core import Pod
from koordpy.scheduling.interface import Binding, Plugin, PreBind
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import SUCCESS, Status


class DefaultPreBind(Plugin, PreBind):
    """Added to every profile that does not disable it."""

    name = "DefaultPreBind"
    watch_suffices = True

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Refuse a pod that is being deleted, or that was replaced by another pod of the same name."""
        live = self.handle.cluster.store(Pod).get(pod.metadata.namespace, pod.metadata.name)
        if live is None:
            return SUCCESS
        if live.metadata.uid != pod.metadata.uid:
            return Status.failed(
                f"pod {pod.metadata.key} has UID {live.metadata.uid}, expected {pod.metadata.uid}"
            )
        if live.metadata.deletion_timestamp:
            return Status.failed("pod is being deleted")
        return SUCCESS
