"""The round of a group: its pods are tried one after the other, and fail together.

Where koordpy is the scheduler itself, the first pod of a group that is tried begins a round, and NextPod
tries the others before anything else. Beside kube-scheduler there is no NextPod: the whole group is planned
at once (`jobs.py`), and the round is no longer than that.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/core.go`.
"""

import json
from collections.abc import Sequence

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_name
from koordpy.scheduling.interface.auditor import RecordType
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.diagnosis import diagnosis_of, existing_diagnosis
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import SUCCESS, Status

from . import metrics
from .conditions import PendingConditions
from .eligibility import eligibility
from .state.context import ALL_ATTEMPTED, CONTEXT, GANG_GONE, ContextHolder, SchedulingContext
from .state.gang import Gang
from .state.gang_cache import GangCache
from .topology.members import in_order_of_index
from .topology.placement import NO_TOPOLOGY, PROBING
from .waiting import GangWaiting


class GangRounds:
    """Admits pods to the queue and to attempts, and keeps the round of the group that is being scheduled."""

    def __init__(
        self,
        handle: Handle,
        cache: GangCache,
        holder: ContextHolder,
        waiting: GangWaiting,
        conditions: PendingConditions,
        *,
        ignores_topology: bool = False,
    ) -> None:
        """With `ignores_topology` groups are scheduled as if they wanted nothing of the network."""
        self._ignores_topology = ignores_topology
        self._handle, self._cache, self._holder = handle, cache, holder
        self._waiting, self._conditions = waiting, conditions

    def context_of(self, state: CycleState) -> SchedulingContext | None:
        """Return the round that an attempt belongs to: where koordpy schedules, the one in progress."""
        return self._holder.current if self._handle.is_scheduler else state.read(CONTEXT)

    def new_context(self, gang: Gang, pod: Pod) -> SchedulingContext:
        """Return a new round of a gang's group, which begins with a pod."""
        manager = self._handle.network_topology
        needs_tree = gang.settings.topology_spec is not None and manager is not None
        tree = manager.snapshot() if needs_tree and manager is not None else None
        context = SchedulingContext.of(gang, pod, self._handle.clock, tree)
        if self._ignores_topology:
            context.topology_spec = None
        return context

    def pending(self, context: SchedulingContext) -> Sequence[Pod]:
        """Return the pods that a round is for: those of its job, else all that wait for a node."""
        if context.job_pods is not None:
            return context.job_pods
        return [pod for gang in self._cache.known(context.gangs) for pod in gang.pending.values()]

    # --- which pods are tried --------------------------------------------------------------------

    def pre_enqueue(self, pod: Pod) -> Status:
        """Admit the pods of complete groups; where koordpy schedules, one of them for all."""
        found = eligibility(self._cache, pod)
        gang, key = found.gang, pod.metadata.key
        if found.reason:
            if gang is not None:
                gang.group.drop_representative(key)
            return Status.unresolvable(found.reason)
        if gang is None:
            return SUCCESS
        if not self._handle.is_scheduler:
            return SUCCESS if key in gang.children else _unknown(key)
        context, group_id = self._holder.current, gang.settings.group_id
        if context is not None and gang.id in context.gangs and key not in context.attempted:
            return Status.unresolvable(
                f"gangGroup {group_id} is scheduling and this pod has not been attempted"
            )
        if key not in gang.pending:
            return _unknown(key)
        representative = gang.group.represented_by(key)
        if representative != key:
            return Status.unresolvable(
                f"representative pod {representative} of gangGroupID {group_id} already exists"
            )
        return SUCCESS

    def next_pod(self) -> Pod | None:
        """Return the next pod of the round that was not tried yet; end the round if there is none."""
        context = self._holder.current
        if context is None:
            return None
        gang = self._cache.gang_of(context.first_pod)
        if gang is None:
            self._waiting.reject(context.gangs, GANG_GONE)
            self._holder.end(GANG_GONE)
            return None
        with metrics.NEXT_POD_LATENCY.time():
            for member in self._cache.known(gang.settings.group):
                left = [pod for key, pod in member.pending.items() if key not in context.attempted]
                if left:
                    pod = in_order_of_index(left)[0]
                    context.attempted.add(pod.metadata.key)
                    return pod
        self._waiting.reject(context.gangs, ALL_ATTEMPTED)
        self._holder.end(ALL_ATTEMPTED)
        if not context.failed_message:
            self._handle.auditor.gang_result(context.group_id, RecordType.GANG_ATTEMPTED)
        return None

    def before_pre_filter(self, state: CycleState, pod: Pod) -> Status:
        """Refuse pods of incomplete groups, and those whose group has failed in this round."""
        if state.read(PROBING):
            return SUCCESS
        found = eligibility(self._cache, pod)
        gang = found.gang
        if found.reason:
            if gang is not None:
                gang.group.drop_representative(pod.metadata.key)
            return Status.unresolvable(found.reason)
        if gang is None:
            return SUCCESS
        diagnosis_of(state).questioned_key = gang.settings.group_id
        context = self._holder.current
        if not self._handle.is_scheduler:
            if context is None or gang.id not in context.gangs:
                return SUCCESS  # a what-if, or a pod that is bound already as far as filters are concerned
            state.write(CONTEXT, context)
            context.attempted.add(pod.metadata.key)
        elif context is None:
            context = self.new_context(gang, pod)
            if context.topology_spec is not None and context.topology_tree is None:
                return Status.unresolvable(NO_TOPOLOGY)
            self._holder.current = context
            gang.group.representative = ""
            return SUCCESS
        if context.topology_spec is not None and context.topology_tree is None:
            return Status.unresolvable(NO_TOPOLOGY)
        if not context.failed_message:
            return SUCCESS
        diagnosis = diagnosis_of(state)
        diagnosis.is_root_cause_pod = False
        if context.suggestion is not None:
            diagnosis.suggest(context.suggestion.type, context.suggestion.message)
        return Status.unresolvable(context.failed_message)

    # --- no node ---------------------------------------------------------------------------------

    def post_filter(self, state: CycleState) -> Status:
        """Return why preemption did not help the group before, for pods that fail because of another one."""
        diagnosis, context = existing_diagnosis(state), self.context_of(state)
        if diagnosis is None or diagnosis.is_root_cause_pod or context is None:
            return Status.unschedulable()
        return Status.unschedulable(*filter(None, (context.preemption_message,)))

    def after_post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome, status: Status
    ) -> Status:
        """Note that a member found no node: in a Strict gang those that wait are rejected.

        Returns what became of the gang.
        """
        if not gang_name(pod):
            return Status.unschedulable()
        gang = self._cache.gang_of(pod)
        if gang is None:
            return Status.unschedulable(
                f'Pod "{pod.metadata.key}" cannot find Gang {json.dumps(gang_name(pod), ensure_ascii=False)}'
            )
        if gang.needs_no_minimum:
            return Status.unschedulable()
        message = self.failure(state, pod, outcome)
        diagnosis, context = existing_diagnosis(state), self.context_of(state)
        if diagnosis is not None and context is not None:
            context.suggestion = diagnosis.suggestion or context.suggestion
            found = diagnosis.preemption
            if diagnosis.is_root_cause_pod:
                if not context.preemption_message and found is not None:
                    context.preemption_message = found.failed_message
            elif not context.conditions_patched:
                context.conditions_patched = True
                self._conditions.patch(gang, pod, context, status.message)
        if not gang.is_strict:
            return Status.unschedulable()
        if self._handle.is_scheduler:
            gang.group.clear_waiting()
            self._waiting.reject(gang.settings.group, message)
        return Status.unschedulable(f'Gang "{gang.id}" gets rejected due to pod is unschedulable')

    def failure(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> str:
        """Return why the group fails in this round, which the first pod without a node decides."""
        context, key = self.context_of(state), pod.metadata.key
        if context is None:
            return f'gets rejected due to member pod "{key}" is unschedulable'
        if context.failed_message:
            return context.failed_message
        waiting = self._cache.count_waiting(context.gangs)
        diagnosis = existing_diagnosis(state)
        if diagnosis is not None and diagnosis.schedule is not None and not diagnosis.schedule.is_job:
            diagnosis.schedule.already_wait_for_bound = waiting
            diagnosis.schedule.already_wait_for_bound_pods = self._cache.waiting_pods(context.gangs)
        reason = json.dumps(outcome.message(), ensure_ascii=False)
        context.failed_message = (
            f'GangGroup "{context.group_id}" gets rejected due to member Pod "{key}" is unschedulable with '
            f"reason {reason}, alreadyWaitForBound: {waiting}"
        )
        context.trigger_pod = pod
        return context.failed_message


def _unknown(key: str) -> Status:
    """Refuse a pod that the watch has not shown yet: it would be scheduled without the others."""
    return Status.unresolvable(f"pod {key} is not exists in gangCache")
