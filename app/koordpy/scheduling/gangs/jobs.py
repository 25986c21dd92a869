"""Jobs beside kube-scheduler: where a filter call for one pod of a job leads.

The first filter call plans the whole job; the filter calls of its other pods are answered with their planned
nodes, and all bind calls take over what is held for them. kube-scheduler decides in which order it asks and
which nodes it offers: if the planned node of a pod is not among them, the pod is placed again on one of
those, unless a plugin has planned the nodes of the job together.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, replace

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.cycle.fence import Fence
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.ranking import AllNodes, Offered
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import JOB_PLAN_DURATION, JOB_PLANS, counter, histogram
from koordpy.scheduling.interface import Job, PlansJobs
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.jobs import MOVED
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.profiles.profiles import Profiles

from .held import HeldPlan, HeldPlans
from .planner import NoRoom, Planned, Planner
from .refusals import Refusals

log = logging.getLogger(__name__)

REMINDED_AFTER = 15.0
"""The seconds after which planned pods that have not come to be bound are retried."""

NOT_LEADING = (
    "another process of koordpy holds the Lease, or none does yet: pods of jobs are planned by its holder"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a filter call for a pod of a job.

    `planned` is set if the job was planned just now, `refused` if it was and does not fit. `refused_by` are
    the plugins that are the reason if it does not fit, whether planned just now or before. `nominate` is the
    planned node of the pod if kube-scheduler has not offered it and must be made to.
    """

    state: CycleState
    outcome: FilterOutcome
    refused: NoRoom | None = None
    planned: HeldPlan | None = None
    nominate: str = ""
    refused_by: frozenset[str] = frozenset()


class Jobs:
    """The jobs of the profiles of a process."""

    def __init__(self, profiles: Profiles, handle: Handle, fence: Fence) -> None:
        self._fence, self._nodes = fence, handle.nodes
        self._handle = handle
        deciding = {
            name: plugins[0]
            for name, framework in profiles.frameworks.items()
            if (plugins := framework.enabled.at("pre_filter", PlansJobs))
        }
        self._planners = {profile: plugin for profile, (_, plugin) in deciding.items()}
        self._names = {profile: name for profile, (name, _) in deciding.items()}
        self._planner = Planner(profiles, handle)
        self.held = HeldPlans(handle, fence, self._planner.place_again)
        self._refusals = Refusals(handle) if self._planners else None

    def __bool__(self) -> bool:
        """Whether any plugin places pods together."""
        return bool(self._planners)

    def concerns(self, framework: Framework, pod: Pod) -> bool:
        """Return whether a pod may be one of a job: cheap, for every filter call."""
        plans = self._planners.get(framework.profile_name)
        return plans is not None and plans.may_plan(pod)

    def id_of(self, framework: Framework, pod: Pod) -> str:
        """Return the id of the job that a pod is placed with; empty if it is placed by itself."""
        plans = self._planners.get(framework.profile_name)
        job = plans.job_of(pod) if plans is not None and plans.may_plan(pod) else None
        return job.id if job is not None else ""

    def is_planned(self, framework: Framework, pod: Pod) -> bool:
        """Return whether a pod is, or would be, planned together with others."""
        plans = self._planners.get(framework.profile_name)
        if plans is None or not plans.may_plan(pod):
            return False
        return self.held.of(pod.metadata.uid) is not None or plans.job_of(pod) is not None

    def answer(self, framework: Framework, pod: Pod, offered: Offered) -> Answer | None:
        """Answer a filter call; None if the pod is scheduled by itself."""
        plans = self._planners.get(framework.profile_name)
        if plans is None or self._refusals is None:
            return None
        plan = self.held.of(pod.metadata.uid)
        if plan is not None:
            return self._held(plan, pod, offered)
        job = plans.job_of(pod)
        if job is None:
            return None
        refusal = self._refusals.take(pod)
        if refusal is not None:
            return replace(_rejected(refusal.status, offered.nodes), refused_by=refusal.refused_by)
        if not self._fence.term:
            self._fence.want()
            return _rejected(Status.failed(NOT_LEADING), offered.nodes)
        room = self.held.room_for(job)
        if not room.is_success:
            log.warning("not planned: %s", room.message)
            counter(JOB_PLANS, framework.profile_name, "error").inc()
            return _rejected(room, offered.nodes)
        return self._planned(plans, job, framework, pod, offered)

    def examine(self, framework: Framework, pod: Pod) -> NoRoom | None:
        """Return why the job of a pod does not fit now; None if it does, or if the pod is in none.

        Nothing is held, and no pod is told anything.
        """
        plans = self._planners.get(framework.profile_name)
        if plans is None or self._refusals is None or self.held.of(pod.metadata.uid) is not None:
            return None
        job = plans.job_of(pod)
        if job is None or not self._fence.term or not self.held.room_for(job).is_success:
            return None
        with self._refusals.ignoring_releases():
            plans.planning(job)
            try:
                result = self._planner.plan(job, pod, AllNodes(self._nodes))
                if isinstance(result, NoRoom):
                    return result
                for placement in reversed(list(result.placements.values())):
                    placement.roll_back("only examined")
                return None
            finally:
                plans.job_examined(job)

    def _planned(
        self, plans: PlansJobs, job: Job, framework: Framework, pod: Pod, offered: Offered
    ) -> Answer:
        """Plan a job. A plugin that raises fails the attempt and leaves nothing behind."""
        assert self._refusals is not None
        began = time.perf_counter()
        with self._refusals.ignoring_releases():
            plans.planning(job)
            try:
                result = self._planner.plan(job, pod, offered)
            except Exception as error:
                log.exception("planning %s failed", job.id)
                plans.job_refused(job, Status.failed(error))
                raise
        refused_by = frozenset[str]()
        if isinstance(result, NoRoom):
            plans.job_refused(job, result.status)
            # The plugin that plans jobs knows which changes of a job itself may help.
            refused_by = result.refused_by | {self._names[framework.profile_name]}
            self._refusals.add(job, pod, result.status, refused_by)
            label = "unschedulable" if result.status.is_rejected else "error"
        else:
            held = self.held.hold(result)
            asyncio.get_running_loop().call_later(REMINDED_AFTER, _remind, framework, held)
            plans.job_planned(job, {uid: each.node_name for uid, each in held.placements.items()})
            label = "planned"
            framework.handle.queue.activate(filter(is_reserve_pod, job.pods))
        counter(JOB_PLANS, framework.profile_name, label).inc()
        took = time.perf_counter() - began
        histogram(JOB_PLAN_DURATION, framework.profile_name, label).observe(took)
        if isinstance(result, Planned):
            log.info("%s: %d pods planned in %.0f ms", job.id, len(result.placements), took * 1e3)
            first = result.first_failed
            answer = self._held(held, pod, offered) if first is None else _rejected(first, offered.nodes)
            return replace(answer, planned=held)
        rejected = _rejected(result.status, offered.nodes)
        return Answer(rejected.state, rejected.outcome, refused=result, refused_by=refused_by)

    def _held(self, plan: HeldPlan, pod: Pod, offered: Offered) -> Answer:
        """Answer with the node that is held for a pod, or with another one of those offered."""
        placement = plan.placements[pod.metadata.uid]
        if offered.include(placement.node_name):
            return self._answered(placement)
        if plan.is_pinned:
            status = Status.unresolvable(
                f"planned together with its job on node {placement.node_name}, "
                "which kube-scheduler has not offered"
            )
            rejected = _rejected(status, offered.nodes)
            return Answer(rejected.state, rejected.outcome, nominate=placement.node_name)
        placement.state.write(MOVED, True)
        placement.roll_back("another node is offered")
        again = self._planner.place_again(pod, offered)
        placement.framework.handle.gave_back(placement.pod)
        if isinstance(again, Status):
            self.held.moved_nowhere(plan, pod)
            return _rejected(
                Status.unresolvable(f"{plan.job.id} is to be planned again: {again.message}"), offered.nodes
            )
        self.held.replace(plan, pod.metadata.uid, again)
        return self._answered(again)

    def _answered(self, placement: Placement) -> Answer:
        node, _ = self._nodes.select([placement.node_name])
        return Answer(placement.state, FilterOutcome(node, np.ones(1, np.bool_)))


def _remind(framework: Framework, plan: HeldPlan) -> None:
    """Have the pods of a plan retried that are not bound yet.

    kube-scheduler knows nothing of the plan: pods that it has put aside would not be tried for minutes.
    """
    if plan.placements:
        framework.handle.queue.activate([placement.pod for placement in plan.placements.values()])


def _rejected(status: Status, nodes: NodeSet) -> Answer:
    error = None if status.is_rejected else status
    outcome = FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), prefilter=status, error=error)
    return Answer(CycleState(), outcome)
