"""The last look at a pod before it is written.

Koordinator's plugin writes what PreBind plugins changed in one patch, guarded by the pod's UID, and refuses
pods that are being deleted. Here that patch is the Binding itself: its annotations and the node are one
write, guarded by the UID in the same way. What is left is to refuse early. Source: Koordinator,
`pkg/scheduler/plugins/defaultprebind`.
"""

from koordpy.api.core import Pod
from koordpy.scheduling.interface import Binding, Plugin, PreBind
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import SUCCESS, Status


class DefaultPreBind(Plugin, PreBind):
    """Appended to every profile that does not disable it."""

    name = "DefaultPreBind"
    watch_suffices = True

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Refuse a pod that is being deleted, or in whose place another pod has come."""
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
