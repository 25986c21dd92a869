"""A pod with scheduling gates is not queued. Source: Kubernetes, `framework/plugins/schedulinggates`."""

from koordpy.api.core import Pod
from koordpy.scheduling.interface import Plugin, PreEnqueue
from koordpy.scheduling.interface.status import SUCCESS, Status


class SchedulingGates(Plugin, PreEnqueue):
    """Waits until every gate is removed."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status:
        """Refuse while there is a gate."""
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return Status.unresolvable(f"waiting for scheduling gates: [{gates}]") if gates else SUCCESS
