"""From a member that found no node to the victims for the whole job, and what is done about them.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/preemption.go`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.diagnosis import diagnosis_of, existing_diagnosis
from koordpy.scheduling.interface.failure import JOB_REJECT
from koordpy.scheduling.interface.fit_error import fit_error
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.preemption import (
    PREEMPTION_ATTEMPTS,
    Budgets,
    Executor,
    HypotheticalNodes,
    clear_nominations,
    is_preempted,
)

from . import findings as reasons
from .findings import Findings
from .members import Members
from .metrics import observe_duration
from .nominations import Nominations
from .placement import Placements, place_each, place_together
from .possible_victims import costs, in_order_of_return, may_preempt, take_victims
from .preemptor import Preemptor
from .victims import VictimsUnknown, choose_victims

PLUGIN = "Coscheduling"

_NOT_HELPFUL = Status.unresolvable("Preemption is not helpful for scheduling")

Answer = tuple[PostFilterResult | None, Status]
"""A result without a node clears the trigger pod's nomination; None leaves it as it is."""

Solver = Callable[[Preemptor, HypotheticalNodes, Mapping[int, int]], Placements]
"""Places a job in the network, given its nodes and their costs; members probed on nodes stay on them."""


@dataclass(frozen=True, slots=True)
class Options:
    """Where koordpy can do better than Koordinator. All are off by default.

    With `joint_fit` members are placed beside each other, a member counts on its node only, members that
    PreFilter refuses preempt nothing, pods that terminate already are used first, and pods that are about to
    be bound are spared: what is evicted suffices. With `considers_pdbs` pods whose eviction violates no
    PodDisruptionBudget go first.
    """

    joint_fit: bool = False
    considers_pdbs: bool = False


@dataclass(frozen=True, slots=True)
class _Decision:
    """The nodes of the members by key, and the victims by node; none if the job cannot be placed."""

    plan: Mapping[str, str]
    victims: Mapping[str, Sequence[Pod]]


class JobPreemption:
    """Preempts for jobs. Nothing is evicted unless the decision places all their pending members."""

    def __init__(self, handle: Handle, options: Options | None = None) -> None:
        self._handle, self._options = handle, options or Options()
        self._jointly: JobPreemption | None = None
        """For jobs whose members are checked together although the options say otherwise."""
        if not self._options.joint_fit:
            self._jointly = JobPreemption(handle, replace(self._options, joint_fit=True))
        self._executor = Executor(JOB_REJECT, handle)
        self._nominations = Nominations(handle)
        self._budgets = handle.cluster.store(PodDisruptionBudget)

    async def preempt(
        self,
        state: CycleState,
        preemptor: Preemptor,
        outcome: FilterOutcome,
        solver: Solver | None = None,
        *,
        found: Findings | None = None,
    ) -> Answer:
        """Evict for a job whose trigger pod found no node, and nominate its members.

        `solver` is given for jobs that ask for a place in the network. `found` receives the findings.
        """
        found = found or Findings(preemptor)
        began = self._handle.clock.monotonic()
        try:
            return await self._in_round(state, preemptor, outcome, solver, found)
        finally:
            PREEMPTION_ATTEMPTS.inc()
            observe_duration(preemptor.key, found.reason, self._handle.clock.monotonic() - began)
            found.describe(diagnosis_of(state))

    async def _in_round(
        self,
        state: CycleState,
        preemptor: Preemptor,
        outcome: FilterOutcome,
        solver: Solver | None,
        found: Findings,
    ) -> Answer:
        """Try once in a round; later members are told what the first one was."""
        current = preemptor.round
        if current is None:
            return await self._preempt(state, preemptor, outcome, solver, found)
        if current.preemption_message:
            found.reason, found.message = reasons.ALREADY_PREEMPTED, current.preemption_message
            return None, Status.unschedulable(current.preemption_message)
        try:
            return await self._preempt(state, preemptor, outcome, solver, found)
        finally:
            found.message = found.text
            current.preemption_message = reasons.ALREADY_PREEMPTED % (
                preemptor.trigger.metadata.key,
                found.message,
            )

    async def _preempt(
        self,
        state: CycleState,
        preemptor: Preemptor,
        outcome: FilterOutcome,
        solver: Solver | None,
        found: Findings,
    ) -> Answer:
        if not preemptor.pending:
            found.reason = reasons.NO_PENDING_PODS
            return None, Status.unschedulable(found.reason)
        statuses = _statuses(state, outcome)
        found.reason = self._ineligible(preemptor, statuses, found)
        if found.reason:
            return None, Status.unschedulable(found.reason)
        if not len(self._handle.nodes.all()):
            found.reason = reasons.NO_NODES
            return None, Status.failed(found.reason)
        try:
            decide = (
                self._jointly._decide if self._jointly is not None and preemptor.is_joint else self._decide
            )
            decision = decide(state, preemptor, outcome, statuses, solver, found)
        except VictimsUnknown as failure:
            found.reason, found.victim_error = reasons.VICTIMS_FAILED, str(failure)
            return None, failure.status
        if decision is None:
            return await self._give_up(preemptor, found)
        return await self._carry_out(preemptor, decision, found)

    # --- may the job preempt ---------------------------------------------------------------------

    def _ineligible(self, preemptor: Preemptor, statuses: Callable[[str], Status], found: Findings) -> str:
        """Return why the job must not preempt, empty if it may."""
        if preemptor.trigger.spec.preemption_policy == "Never":
            return reasons.NEVER
        for pod in preemptor.pending:
            self._note_terminating(preemptor.trigger, pod, statuses, found)
        if found.terminating or self._executor.awaits_deletions(preemptor.key):
            return reasons.STILL_TERMINATING
        return ""

    def _note_terminating(
        self, trigger: Pod, pod: Pod, statuses: Callable[[str], Status], found: Findings
    ) -> None:
        """Note the first victim that still terminates on the node that a member is nominated to.

        The node of the trigger pod does not matter if the pod could not go there anyway.
        """
        name = pod.status.nominated_node_name or self._handle.nominator.node_of(pod.metadata.uid)
        row = self._handle.nodes.row_of(name) if name else None
        if row is None:
            return
        is_trigger = pod.metadata.key == trigger.metadata.key
        if is_trigger and statuses(name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return
        for victim in self._handle.nodes.pods_on(row):
            if may_preempt(victim, pod) and is_preempted(victim):
                found.terminating[victim.metadata.key] = name
                return

    # --- the decision ----------------------------------------------------------------------------

    def _decide(
        self,
        state: CycleState,
        preemptor: Preemptor,
        outcome: FilterOutcome,
        statuses: Callable[[str], Status],
        solver: Solver | None,
        found: Findings,
    ) -> _Decision | None:
        every = self._handle.nodes.all()
        total, joint = len(every), self._options.joint_fit
        found.reason = reasons.NOT_HELPFUL
        if joint and is_rejected_elsewhere(outcome):
            found.message = fit_error(total, {}, pre_filter=outcome.prefilter.message)
            return None
        members = Members(
            self._handle.framework, every, state, preemptor.trigger, preemptor.pending, strict=joint
        )
        codes = [statuses(name).code for name in every.names]
        helpful = [index for index, code in enumerate(codes) if code is Code.UNSCHEDULABLE]
        if joint and len({members.key(pod) for pod in preemptor.pending}) > 1:
            helpful = list(range(total))  # the statuses are those of the trigger pod only
        if not helpful:
            hopeless = [
                index for index, code in enumerate(codes) if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            ]
            found.message = _fit_error(total, {every.names[index]: _NOT_HELPFUL for index in hopeless})
            return None
        nodes = HypotheticalNodes(members, every.pick(np.array(helpful, np.int64)))
        victims_on = {
            index: pods
            for index in nodes.indexes
            if (pods := [pod for pod in nodes.pods_on(index) if self._may_go(pod, preemptor.trigger)])
        }
        untouched = take_victims(nodes, victims_on)
        if not victims_on:
            found.message = _fit_error(total, untouched)
            return None
        found.possible_victims = {nodes.names[index]: pods for index, pods in victims_on.items()}
        placed = self._place(preemptor, nodes, victims_on, untouched, solver, found)
        found.statuses, found.slots, found.unplaced = placed.statuses, placed.slots, placed.unplaced
        if placed.failed:
            found.message = placed.message or _fit_error(total, placed.statuses)
            return None
        found.plan = placed.plan(nodes.names)
        victims = choose_victims(nodes, placed.on_node, victims_on, self._order_of_return)
        found.victims = {nodes.names[index]: pods for index, pods in victims.items()}
        return _Decision(found.plan, found.victims)

    def _may_go(self, victim: Pod, trigger: Pod) -> bool:
        if not may_preempt(victim, trigger):
            return False
        uid = victim.metadata.uid
        return (
            not self._options.joint_fit
            or not self._handle.nodes.is_assumed(uid)
            or self._handle.waiting_pods.get(uid) is not None
        )

    def _place(
        self,
        preemptor: Preemptor,
        nodes: HypotheticalNodes,
        victims_on: Mapping[int, Sequence[Pod]],
        untouched: Mapping[str, Status],
        solver: Solver | None,
        found: Findings,
    ) -> Placements:
        cost = costs(victims_on)
        if solver is not None:
            found.mode = reasons.BY_JOB
            joint = self._options.joint_fit
            return solver(preemptor, nodes.fork(nodes.indexes) if joint else nodes, cost)
        found.mode = reasons.BY_POD
        if not self._options.joint_fit:
            return place_each(nodes, preemptor.pending, cost, untouched)
        violations = self._violations(victims_on)
        return place_together(
            nodes,
            preemptor.pending,
            lambda index: (violations.get(index, 0), cost.get(index, 0), len(victims_on.get(index, ()))),
            untouched,
        )

    def _violations(self, victims_on: Mapping[int, Sequence[Pod]]) -> Mapping[int, int]:
        if not self._options.considers_pdbs:
            return {}
        budgets = Budgets(self._budgets)
        return {index: len(budgets.split(pods)[0]) for index, pods in victims_on.items()}

    def _order_of_return(self, victims: Sequence[Pod]) -> Sequence[Pod]:
        """Sort possible victims: those that should stay first come first."""
        ordered = in_order_of_return(victims)
        if self._options.considers_pdbs:
            violating, others = Budgets(self._budgets).split(ordered)
            ordered = violating + others
        if self._options.joint_fit:
            ordered.sort(key=lambda pod: pod.metadata.deletion_timestamp is not None)
        return ordered

    # --- what is done about it -------------------------------------------------------------------

    async def _give_up(self, preemptor: Preemptor, found: Findings) -> Answer:
        """Tell the job that it cannot be placed: all members lose their nominations."""
        self._nominations.reject_waiting(preemptor.waiting, found.message, succeeded=False)
        found.nominations_failed |= await self._nominations.set_all(_all_pods(preemptor), {})
        return PostFilterResult("", override=True), Status.unschedulable(found.message)

    async def _carry_out(self, preemptor: Preemptor, decision: _Decision, found: Findings) -> Answer:
        """Nominate the members and evict the victims.

        Members are nominated before anything is evicted. When evictions fail half way, or the process ends,
        the next attempt sees victims that terminate on the nominated nodes and waits for them, instead of
        choosing others as well.
        """
        trigger = preemptor.trigger
        before = {
            pod.metadata.key: pod.status.nominated_node_name
            for pod in preemptor.pending
            if pod.status.nominated_node_name
        }
        lesser = self._nominations.less_important(preemptor, list(decision.victims))
        found.nominations_failed |= await self._nominations.set_all(preemptor.pending, decision.plan)
        message = (
            f"{trigger.spec.scheduler_name}: preempting to accommodate higher priority pods, "
            f"preemptor: {preemptor.key}, triggerPod: {trigger.metadata.key}"
        )
        if decision.victims:
            evicted = await self._executor.evict_for_job(
                trigger, preemptor.key, decision.victims, message=message
            )
            if not evicted.status.is_success:
                found.reason, found.message = reasons.EVICTION_FAILED, evicted.status.message
                if not evicted.any:
                    await self._nominations.set_all(preemptor.pending, before, current=decision.plan)
                return None, evicted.status
            if self._handle.client is not None:
                await clear_nominations(self._handle.client, lesser)
        found.reason = reasons.SUCCEEDED
        found.message = found.reason % (len(preemptor.waiting), preemptor.size)
        self._nominations.reject_waiting(preemptor.waiting, found.message, succeeded=True)
        waited_on = {member.pod.metadata.key: member.node_name for member in preemptor.waiting}
        found.nominations_failed |= await self._nominations.set_all(
            [member.pod for member in preemptor.waiting], waited_on
        )
        node_name = decision.plan.get(trigger.metadata.key, "")
        return PostFilterResult(node_name, override=True), SUCCESS


def is_rejected_elsewhere(outcome: FilterOutcome) -> bool:
    """Return whether another plugin rejects the pod whatever the node is.

    Coscheduling itself does so if there is no place in the network for the job as it is.
    """
    status = outcome.prefilter
    own = status.plugin == PLUGIN and status.code is Code.UNSCHEDULABLE
    return not (status.is_success or own)


def _statuses(state: CycleState, outcome: FilterOutcome) -> Callable[[str], Status]:
    """Return the status of each node in the failed attempt; nodes that were not filtered are unresolvable."""
    unknown = Status.unresolvable()
    diagnosis = existing_diagnosis(state)
    if diagnosis is not None and diagnosis.schedule is not None and diagnosis.schedule.is_job:
        solved = diagnosis.schedule.node_to_status
        return lambda name: solved.get(name, unknown)
    if not outcome.prefilter.is_success:
        return lambda _: outcome.prefilter
    known = {name: status for status, names in outcome.failed() for name in names}
    return lambda name: known.get(name, unknown)


def _fit_error(total: int, statuses: Mapping[str, Status]) -> str:
    counts: Counter[str] = Counter()
    for status in statuses.values():
        counts.update(status.reasons)
    return fit_error(total, counts)


def _all_pods(preemptor: Preemptor) -> list[Pod]:
    return [*preemptor.pending, *(member.pod for member in preemptor.waiting)]
