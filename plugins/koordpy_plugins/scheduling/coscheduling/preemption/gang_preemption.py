"""PostFilter of Coscheduling with `enablePreemption`: which job preempts, and with which state."""

from collections.abc import Sequence

from koordpy.api.core import Pod
from koordpy.scheduling.interface.auditor import RecordType
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.diagnosis import diagnosis_of, existing_diagnosis
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import Status

from ..args import CoschedulingArgs
from ..jobs import GangJobs
from ..rounds import GangRounds
from ..state.context import SchedulingContext
from ..state.gang_cache import GangCache
from ..topology.layouts import Layouts
from ..topology.placement import PROBING, NetworkPlacement
from ..waiting import GangWaiting
from .job_preemption import JobPreemption, Options, Solver, is_rejected_elsewhere
from .network import NetworkSolver
from .preemptor import Preemptor, WaitingMember


class GangPreemption:
    """Preempts for the group of a member that found no node, or for a pod of no gang."""

    def __init__(
        self,
        args: CoschedulingArgs,
        handle: Handle,
        cache: GangCache,
        rounds: GangRounds,
        jobs: GangJobs,
        waiting: GangWaiting,
        network: NetworkPlacement,
        layouts: Layouts,
    ) -> None:
        self._handle, self._cache, self._rounds, self._jobs = handle, cache, rounds, jobs
        self._waiting = waiting
        self._network, self._layouts = network, layouts
        self._preemption = JobPreemption(
            handle,
            Options(joint_fit=args.preemption_joint_fit, considers_pdbs=args.preemption_considers_pdbs),
        )

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Evict, or say why not; the message begins with "preemption: "."""
        self._rounds.failure(state, pod, outcome)
        if self._handle.is_scheduler:
            context = self._rounds.context_of(state)
            preemptor = self._preemptor(pod, context, None if context is None else self._pending(context))
        else:
            begun = self._begin(state, pod, outcome)
            if isinstance(begun, Status):
                return None, begun
            state, context, preemptor = begun
        result, status = await self._preemption.preempt(state, preemptor, outcome, self._solver(context))
        if status.is_success and (gang := self._cache.gang_of(pod)) is not None:
            # If the group still does not fit, its members keep each other off the nodes that they were
            # nominated to one by one: evictions as in the first attempt would go on for ever.
            gang.group.preempts_jointly = True
        if not self._handle.is_scheduler:
            self._audit(state, preemptor)
        if status.message:
            status = Status(status.code, (f"preemption: {status.message}",), error=status.error)
        return result, status

    def _begin(
        self, failed_state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[CycleState, SchedulingContext | None, Preemptor] | Status:
        """Begin an attempt beside kube-scheduler, where the round in which the pod failed has ended.

        Members that were placed before it are not on their nodes any more. What another plugin rejects
        whatever the node is, its quota say, is for that plugin to make room for.
        """
        if is_rejected_elsewhere(outcome) or self._waiting.is_in_vain(pod):
            return Status.unschedulable()
        gang, context, pending = self._cache.gang_of(pod), None, None
        if gang is not None and not gang.needs_no_minimum:
            job = self._jobs.job_of(pod)
            if job is None:
                return Status.unschedulable()
            context, pending = self._rounds.new_context(gang, pod), job.pods
        framework = self._handle.framework
        state = framework.new_state()
        state.write(PROBING, True)
        failed = existing_diagnosis(failed_state)
        if failed is not None and failed.schedule is not None and failed.schedule.is_job:
            diagnosis_of(state).schedule = failed.schedule  # why the solver found no place
        before = framework.run_pre_filter(state, pod, self._handle.nodes.all())
        if not before.status.is_success:
            return Status.unschedulable() if before.status.is_rejected else before.status
        return state, context, self._preemptor(pod, context, pending)

    def _audit(self, state: CycleState, preemptor: Preemptor) -> None:
        """Record the result, as the attempt's own record, which is of an earlier state, does not have it."""
        diagnosis = diagnosis_of(state)
        if not diagnosis.audit_type:
            return
        event, pod = RecordType(diagnosis.audit_type), preemptor.trigger
        if preemptor.round is not None:
            self._handle.auditor.gang_happened(preemptor.key, pod, event, diagnosis.audit_message)
        else:
            self._handle.auditor.happened(pod, event, diagnosis.audit_message)

    # --- the job ---------------------------------------------------------------------------------

    def _pending(self, context: SchedulingContext) -> list[Pod]:
        """Return the members without a node that still want one."""
        return [
            member
            for gang in self._cache.known(context.gangs)
            for member in gang.pending.values()
            if not member.metadata.deletion_timestamp and not member.is_terminal
        ]

    def _preemptor(
        self, pod: Pod, context: SchedulingContext | None, pending: Sequence[Pod] | None
    ) -> Preemptor:
        """Return the group that is being scheduled; without one only the pod counts."""
        latest = self._latest(pod)
        if context is None or pending is None:
            return Preemptor.single(latest)
        waiting = [
            WaitingMember(member, self._handle.nodes.placed_on(member.metadata.uid) or "")
            for member in self._cache.waiting_pods(context.gangs)
        ]
        gang = self._cache.gang_of(pod)
        is_joint = gang is not None and gang.group.preempts_jointly
        return Preemptor.group(context.group_id, latest, pending, waiting, context, is_joint=is_joint)

    def _latest(self, pod: Pod) -> Pod:
        known = self._handle.cluster.store(Pod).by_key(pod.metadata.key)
        return known if known is not None and known.metadata.uid == pod.metadata.uid else pod

    def _solver(self, context: SchedulingContext | None) -> Solver | None:
        if context is None or context.topology_spec is None or context.topology_tree is None:
            return None
        spec, tree = context.topology_spec, context.topology_tree
        attempted = len(context.attempted) if self._handle.is_scheduler else 1
        return NetworkSolver(self._handle, self._network, self._layouts, spec, tree, attempted)
