"""An unschedulable pod preempts less important ones.

Victims are evicted concurrently with the scheduling of other pods; until then the pod is not queued. Source:
Kubernetes, `framework/plugins/defaultpreemption` (release 1.35, with the gate SchedulerAsyncPreemption at its
default: on).
"""

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.scheduling.interface import Plugin, PostFilter, PreEnqueue
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.preemption import Evaluator, Rules

from .args import DefaultPreemptionArgs

UNDER_WAY = Status.unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption(Plugin, PreEnqueue, PostFilter):
    """Chooses the node with the least important victims, evicts them, and nominates the pod to it."""

    name = "DefaultPreemption"
    args: DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.evaluator = Evaluator(
            self.name,
            handle,
            Rules(
                args.min_candidate_nodes_percentage,
                args.min_candidate_nodes_absolute,
                latest=lambda pod: handle.cluster.store(Pod).by_key(pod.metadata.key),
            ),
        )

    def pre_enqueue(self, pod: Pod) -> Status:
        """Keep a pod unqueued while its victims are evicted."""
        return UNDER_WAY if self.evaluator.executor.is_running(pod.metadata.uid) else SUCCESS

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Preempt, except for reserve pods."""
        if is_reserve_pod(pod):
            return None, Status.unschedulable()
        return await self.evaluator.preempt(state, pod, outcome)
