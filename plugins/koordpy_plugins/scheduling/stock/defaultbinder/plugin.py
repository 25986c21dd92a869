"""Binds by writing the pod's binding subresource. Source: Kubernetes, `framework/plugins/defaultbinder`.

The annotations of PreBind plugins are sent as annotations of the Binding: the API server copies them in the
write that sets the node, so one call does both.
"""

from koordpy.api.core import Pod
from koordpy.api.needs import Needs, Right
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.scheduling.interface import Bind, Binding, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import SUCCESS, Status


class DefaultBinder(Plugin, Bind):
    """Binds every pod except reserve pods, which do not exist in the API server."""

    name = "DefaultBinder"
    watch_suffices = True
    needs = Needs(rights=(Right("create", "pods/binding"),))

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Write the Binding; errors of the API server are raised to the caller.

        Reserve pods do not exist in the API server: they are skipped for the next plugin.
        """
        if is_reserve_pod(pod):
            return Status.skip()
        if is_reserve_pod(pod):
            return Status.skip()
        if self.handle.client is None:
            return Status.failed("DefaultBinder has no client to bind with")
        try:
            await self.handle.client.bind(pod, binding.node_name, binding.annotations)
        except Exception as error:
            return Status.failed(error)
        return SUCCESS
