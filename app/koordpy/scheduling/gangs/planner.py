"""Places all pods of a job, one after the other, before any of them is bound.

Each pod goes through a whole cycle, with kube-scheduler's in-tree plugins, and what it takes is reserved at
once by a `Placement`: so the next pod sees it, in every plugin, and nothing is simulated. Nothing is awaited,
so nothing interleaves: two jobs can never both be half planned and wait for each other.

Of a cycle only that is repeated which the pods before it may have changed (`evaluations.py`); in a small job
nothing for a pod that is identical to one of any job (`koordpy.scheduling.cycle.rankings`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.counting import counted
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.ranking import AllNodes, Offered
from koordpy.scheduling.cycle.rankings import Rankings
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Job, PlacementPlan
from koordpy.scheduling.interface.cycle_state import SCORED, CycleState
from koordpy.scheduling.interface.gates import INLINE_BATCH_SCHEDULE
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores
from koordpy.scheduling.interface.plan import PLAN, PLANNED_NODE
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.profiles.profiles import Profiles

from .evaluations import Evaluations

MANY = 5
"""The number of pods from which it pays to keep what is evaluated from one pod to the next."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A job that fits: the placements, reserved, by the UIDs of their pods.

    `is_pinned` means that a plugin planned the nodes of all pods together, so that none can go elsewhere.
    `first_failed` is set if the job goes ahead without the pod whose filter call it was.
    """

    job: Job
    placements: Mapping[str, Placement]
    is_pinned: bool
    first_failed: Status | None = None


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A job that does not fit; nothing is reserved.

    `status` is what all its pods are told. `pod` is the first one without a node, `state` and `outcome` are
    those of its cycle, in which the pods before it had their nodes; `outcome` is None if a plugin failed.
    `refused_by` are the plugins that are the reason.
    """

    job: Job
    status: Status
    pod: Pod
    state: CycleState
    outcome: FilterOutcome | None
    refused_by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Failed:
    """A pod without a node."""

    status: Status
    state: CycleState
    outcome: FilterOutcome | None


class Planner:
    """Plans jobs with the profiles of a process."""

    def __init__(self, profiles: Profiles, handle: Handle) -> None:
        self._profiles, self._nodes, self._rng = profiles, handle.nodes, handle.rng
        self._nominator, self._all = handle.nominator, AllNodes(handle.nodes)
        self._rankings = Rankings("members", handle, _score)

    def plan(self, job: Job, first: Pod, offered: Offered) -> Planned | NoRoom:
        """Place the pods of a job, `first` before the others and only on one of the nodes offered for it."""
        placed: dict[str, Placement] = {}
        failed: tuple[Pod, _Failed] | None = None
        failures = 0
        plan: PlacementPlan | None = None
        evaluations = Evaluations(self._nodes, self._rng, len(job.pods)) if len(job.pods) >= MANY else None
        uid = first.metadata.uid
        others = [pod for pod in job.pods if pod.metadata.uid != uid]
        left = {pod.metadata.uid for pod in job.pods}
        for pod in (first, *others):
            left.discard(pod.metadata.uid)
            if plan is not None and pod.metadata.uid not in plan.node_of:
                continue
            if pod is first:
                found = self._place(pod, offered, None)
            else:
                earlier = None if failed is None else failed[1]
                found = self._place(pod, self._all, plan, evaluations, earlier)
            if plan is None and isinstance(found, _Failed) and (made := found.state.read(PLAN)) is not None:
                plan = made
                found = self._place(pod, self._all, plan)
            if isinstance(found, Placement):
                placed[pod.metadata.uid] = found
                plan = plan or found.state.read(PLAN)
                continue
            failed = failed or (pod, found)
            failures += 1
            if plan is not None or (_is_asked_after(failures) and not job.suffices(placed.keys() | left)):
                break
        holds = failed is None or plan is None or not self._binds_at_once(first)
        if placed and holds and job.suffices(placed.keys()):
            rest = None if failed is None or uid in placed else _no_room(job, len(placed), *failed)
            return Planned(job, placed, plan is not None, rest)
        for placement in reversed(placed.values()):
            placement.roll_back("the job that the pod belongs to does not fit")
        if failed is None:
            text = (
                f"every pod of {job.id} that waits for a node fits ({len(placed)}), but it needs more than "
                "these"
            )
            return NoRoom(job, Status.unresolvable(text), first, CycleState(), None)
        pod, why = failed
        status = _no_room(job, len(placed), pod, why)
        return NoRoom(job, status, pod, why.state, why.outcome, _refusing(why))

    def _binds_at_once(self, pod: Pod) -> bool:
        """Return whether a plugin's plan is carried out at once: then it holds as a whole or not at all.

        Source: Koordinator, `pkg/scheduler/batch/batch_scheduler.go` (`BatchSchedule`).
        """
        framework = self._profiles.of(pod.spec.scheduler_name)
        return framework is not None and framework.handle.gates.enabled(INLINE_BATCH_SCHEDULE)

    def place_again(self, pod: Pod, offered: Offered) -> Placement | Status:
        """Place one pod of a planned job on other nodes; what it had must be released before."""
        found = self._place(pod, offered, None)
        return found if isinstance(found, Placement) else found.status

    # --- one pod ---------------------------------------------------------------------------------

    def _place(
        self,
        pod: Pod,
        offered: Offered,
        plan: PlacementPlan | None,
        evaluations: Evaluations | None = None,
        earlier: _Failed | None = None,
    ) -> Placement | _Failed:
        """Find a node for a pod, and reserve there.

        Where another pod of the job has failed `earlier`, nobody asks why this one does.
        """
        whole = self._profiles.whole_of(pod.spec.scheduler_name)
        # kube-scheduler knows nothing of reserve pods, so their placements have its part too.
        framework = whole if is_reserve_pod(pod) else self._profiles.of(pod.spec.scheduler_name)
        if framework is None or whole is None:
            name = pod.spec.scheduler_name
            return _Failed(Status.unresolvable(f"no profile for schedulerName {name!r}"), CycleState(), None)
        if plan is not None:
            nodes, _ = self._nodes.select([plan.node_of[pod.metadata.uid]])
            return self._whole_cycle(framework, whole, pod, nodes, plan)
        if evaluations is None:
            again = self._like_another(whole, pod, offered)
        else:
            again = evaluations.best(whole, pod)
            if evaluations.are_none and earlier is not None:
                return earlier
        if again is not None:
            state, node_name = again
            placement, status = self._reserve(framework, state, pod, node_name)
            if status.is_success:
                whole.drop_lookups(state)
                return placement
        return self._whole_cycle(framework, whole, pod, offered.nodes, None)

    def _like_another(self, whole: Framework, pod: Pod, offered: Offered) -> tuple[CycleState, str] | None:
        """Return a state and the best node for a pod from the evaluation for an identical one of any job."""
        if self._nominator or is_reserve_pod(pod):
            return None
        signature = whole.signer.sign_member(pod)
        if signature is None:
            return None
        found = self._rankings.take(whole, pod, signature, offered)
        if found is None:
            return None
        ranking, row = found
        state = ranking.state.clone()
        # The pod's own PreFilter comes to what the other one's has: what it is for is the state.
        if not whole.run_pre_filter(state, pod, self._nodes.all()).status.is_success:
            ranking.give_back(row)
            return None
        return state, self._nodes.name_of(row)

    def _whole_cycle(
        self,
        framework: Framework,
        whole: Framework,
        pod: Pod,
        nodes: NodeSet,
        plan: PlacementPlan | None,
    ) -> Placement | _Failed:
        state = whole.new_state()
        if plan is not None:
            state.write(PLANNED_NODE, plan.node_of[pod.metadata.uid])
        outcome = whole.find_feasible(state, pod, nodes)
        if outcome.error is not None:
            return _Failed(outcome.error, state, None)
        if not outcome.prefilter.is_success or not outcome.feasible.any():
            return _Failed(outcome.prefilter, state, outcome)
        kept = outcome.kept
        if len(kept) == 1 or not whole.scores:
            best = 0
        else:
            scores, status = whole.run_score(state, pod, kept)
            if scores is None:
                return _Failed(status, state, None)
            equal = np.flatnonzero(scores.total == scores.total.max())
            best = int(equal[self._rng.randrange(len(equal))])
        placement, status = self._reserve(framework, state, pod, kept.names[best])
        if not status.is_success:
            return _Failed(status, state, outcome)
        whole.drop_lookups(state)
        return placement

    def _reserve(
        self, framework: Framework, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[Placement, Status]:
        placement = Placement(framework, state, pod, node_name)
        state.write(SCORED, state)
        status = placement.reserve()
        state.delete(SCORED)
        if not status.is_success:
            placement.roll_back(status.message)
        return placement, status


def _refusing(failed: _Failed) -> frozenset[str]:
    seen = failed.outcome.plugins if failed.outcome is not None else ()
    return frozenset((failed.status.plugin, *seen))


def _score(whole: Framework, state: CycleState, pod: Pod, nodes: NodeSet) -> Scores | None:
    return whole.run_score(state, pod, nodes)[0]


def _is_asked_after(failures: int) -> bool:
    """Return whether to find out if the rest suffices; seldom after many failures, since that takes long."""
    return failures <= 32 or failures & (failures - 1) == 0


def _no_room(job: Job, placed: int, pod: Pod, failed: _Failed) -> Status:
    """Return what all pods of a job are told. An eviction for one of them alone would not help."""
    status, outcome = failed.status, failed.outcome
    reason = status.message or status.code.name
    if outcome is not None and status.is_success:
        reason = outcome.message()
    if status.plugin:
        reason = f"{status.plugin}: {reason}"
    size = counted(len(job.pods), "pod")
    text = f"{placed} of {size} of {job.id} fit; pod {pod.metadata.key} does not: {reason}"
    if not (status.is_success or status.is_rejected):
        return Status.failed(text)
    return Status.unresolvable(text)
