"""Schedules Reservations, one after the other, while kube-scheduler schedules pods.

A cycle runs from the queue to the Reserve plugins without awaiting, on the event loop that also binds the
extender's pods: neither can allocate what the other is about to allocate. Everything after Reserve (Permit,
PreBind, the write) runs concurrently with the next cycles. The order of the points, and the handling of
failures, are Koordinator's (`pkg/scheduler/frameworkext`).

Only the leading process of a cluster runs this.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod, reservation_name_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import NotFound
from koordpy.cluster.events import NORMAL, Recorder
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.cycle.fence import Fence
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.queue import SchedulingQueue
from koordpy.scheduling.cycle.ranking import AllNodes
from koordpy.scheduling.explain.decisions import Decision, Decisions, Outcome
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import ATTEMPT_DURATION, ATTEMPTS, counter, histogram
from koordpy.scheduling.gangs.jobs import Jobs
from koordpy.scheduling.interface import Bind, QueuedPod
from koordpy.scheduling.interface.failure import Failure, taken_over
from koordpy.scheduling.interface.gates import DYNAMIC_SCHEDULER_CHECK, scheduling_gates
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.profiles.profiles import Profiles

from . import failures
from .attempt import Attempt
from .binding import Binder
from .cluster_events import ClusterEvents
from .reserve_pods import ReservePods

log = logging.getLogger(__name__)

REST = 3.0
"""After a cycle, the event loop is left to kube-scheduler's calls for this multiple of its duration."""

LAST_WRITES_SECONDS = 4.0
"""Shorter than the rest of a Lease when its holder has stopped renewing it."""

CLEARED = PostFilterResult("", override=True)
"""Clears a nomination."""

RESERVATION = "Reservation"
"""The plugin that binds reserve pods: a profile without it schedules no Reservations."""


class ReservationScheduler:
    """Schedules the Reservations of all profiles that have the Reservation plugin; `run` while this process
    leads.

    `events` are written in the names of these profiles.
    """

    def __init__(
        self,
        profiles: Profiles,
        handle: Handle,
        client: Client,
        events: Mapping[str, Recorder],
        *,
        gates: FeatureGates | None = None,
        decisions: Decisions | None = None,
        fence: Fence | None = None,
        jobs: Jobs | None = None,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
    ) -> None:
        self._handle, self._client, self._clock = handle, client, handle.clock
        self._all_nodes = AllNodes(handle.nodes)
        self._fence = fence or Fence(handle.clock)
        self._decisions = decisions or Decisions()
        self._jobs = jobs or Jobs(profiles, handle, self._fence)
        self._frameworks = _scheduling(profiles)
        # If no profile has Reservations, nothing is followed: their CRD need not be installed.
        cluster = handle.cluster if self._frameworks else Cluster(handle.clock)
        self._reservations = cluster.store(Reservation)
        gates = gates or scheduling_gates()
        self._binder = Binder(
            cluster,
            client,
            self._fence,
            checks_scheduler=gates.enabled(DYNAMIC_SCHEDULER_CHECK),
        )
        self._checks_scheduler = gates.enabled(DYNAMIC_SCHEDULER_CHECK)
        self._backoffs = initial_backoff, max_backoff
        self._events = events
        for name, framework in self._frameworks.items():
            framework.handle.queue.join(self)
            framework.handle.events = framework.handle.events or events[name]
        self._wake = asyncio.Event()
        self._binding: dict[str, asyncio.Task[None]] = {}
        self._promised: set[str] = set()
        """UIDs of reserve pods for which resources are held on a node."""
        self.queue = self._new_queue()

    def __bool__(self) -> bool:
        return bool(self._frameworks)

    def _new_queue(self) -> SchedulingQueue:
        initial, most = self._backoffs
        return SchedulingQueue(self._clock, admits=self._admits, initial_backoff=initial, max_backoff=most)

    def _admits(self, pod: Pod) -> bool:
        framework = self._frameworks.get(pod.spec.scheduler_name)
        return framework is not None and framework.run_pre_enqueue(pod).is_success

    def activate(self, pod: Pod) -> None:
        """Try a reserve pod again at once, as a plugin wishes."""
        self.queue.activate(pod.metadata.uid)
        self._wake.set()

    def move_all(self, event: ClusterEvent) -> None:
        """Retry every unschedulable reserve pod but the one that gave back what it had."""
        if self.queue.move_all(but=event.gone_pod):
            self._wake.set()

    # --- lifecycle -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule until cancelled; then abandon attempts that wait in Permit and finish writes in flight."""
        self.queue = self._new_queue()
        reserve_pods = ReservePods(
            self.queue,
            self._handle.waiting_pods,
            is_ours=lambda reservation: reservation.scheduler_name in self._frameworks,
            in_hand=self._binding.__contains__,
            dropped=self._dropped,
            on_change=self._wake.set,
        )
        cluster_events = ClusterEvents(self._handle.cluster, self.queue, self._wake.set)
        following = self._reservations.subscribe(
            reserve_pods.added, reserve_pods.updated, reserve_pods.deleted
        )
        try:
            with cluster_events:
                await self._schedule()
        finally:
            self._reservations.unsubscribe(following)
            await self._end_binding()
            for uid in list(self._promised):
                self._take_back_promise(uid)

    async def _end_binding(self) -> None:
        """Finish writes in flight: the next leader must not start before they are done."""
        for uid, task in self._binding.items():
            if self._handle.waiting_pods.get(uid) is not None:
                task.cancel()
        tasks = list(self._binding.values())
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_WRITES_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _schedule(self) -> None:
        while True:
            item = self.queue.pop()
            if item is None:
                self._wake.clear()
                try:
                    async with asyncio.timeout(self.queue.ready_in()):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                continue
            attempt = self._begin(item)
            if attempt is not None:
                await self._try(attempt)
                await asyncio.sleep(attempt.took * REST)

    # --- one attempt -----------------------------------------------------------------------------

    def _begin(self, item: QueuedPod) -> Attempt | None:
        """Read the current Reservation; drop it and return None if it is not to be scheduled."""
        uid = item.pod.metadata.uid
        reservation = self._reservations.by_key(reservation_name_of(item.pod))
        framework = self._frameworks.get(item.pod.spec.scheduler_name)
        if (
            reservation is None
            or reservation.metadata.uid != uid
            or not reservation.is_unassigned
            or reservation.is_terminating
            or framework is None
            or uid in self._binding
        ):
            self.queue.delete(uid)
            return None
        pod = new_reserve_pod(reservation)
        decision = Decision(pod, framework.profile_name, self._clock.now(), framework.weights)
        decision.chosen_by = "koordpy"
        self._decisions.begin(decision)
        state, began = framework.new_state(), self._clock.monotonic()
        return Attempt(framework, item, reservation, pod, state, decision, began, self._fence.term)

    async def _try(self, attempt: Attempt) -> None:
        """Place a reserve pod and leave its binding to a task; handle a failure."""
        nomination: PostFilterResult | None = CLEARED
        outcome: FilterOutcome | None = None
        try:
            began = self._clock.monotonic()
            status, outcome = self._place(attempt)
            attempt.took = self._clock.monotonic() - began
            if outcome is not None:
                status, nomination = await self._post_filter(attempt, outcome)
        except Exception as error:
            log.exception("scheduling reservation %s failed", attempt.reservation.metadata.name)
            status = Status.failed(error)
        if status.is_success:
            task = asyncio.create_task(self._bind(attempt))
            self._binding[attempt.uid] = task
            task.add_done_callback(partial(self._bind_ended, attempt))
        else:
            attempt.roll_back()
            failure = Failure(attempt.pod, status, nomination, attempt.node_name, attempt.state, outcome)
            await self._failed(attempt, failure)

    def _place(self, attempt: Attempt) -> tuple[Status, FilterOutcome | None]:
        """Find a node and reserve there; return the status, and the filters' outcome if none fits.

        Nothing here awaits, so nothing can change between what filters see and what Reserve allocates.
        """
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        nodes = self._handle.nodes.all()
        if not len(nodes):
            return Status.unresolvable("no nodes available to schedule pods"), None
        concerned = self._jobs.concerns(framework, pod)
        answer = self._jobs.answer(framework, pod, self._all_nodes) if concerned else None
        if answer is None:
            outcome = framework.find_feasible(state, pod, nodes)
        else:
            state = attempt.state = answer.state
            outcome = answer.outcome
        self._decisions.filtered(attempt.decision, outcome, state)
        if outcome.error is not None:
            return outcome.error, None
        if not outcome.prefilter.is_success or not outcome.feasible.any():
            return outcome.prefilter, outcome
        node_name, status = self._best(attempt, outcome.kept)
        if not status.is_success:
            return Status.failed(status.message), None
        held = self._jobs.held.take(attempt.uid, node_name)
        placement = attempt.placement = held or Placement(framework, state, pod, node_name)
        attempt.decision.become("binding", node_name)
        if held is None:
            status = placement.reserve()
        attempt.pod = placement.pod
        if status.is_success:
            self._promised.discard(attempt.uid)
            status = placement.permit()
        return (SUCCESS if status.code is Code.WAIT else status), None

    def _best(self, attempt: Attempt, nodes: NodeSet) -> tuple[str, Status]:
        if len(nodes) == 1 or not attempt.framework.scores:
            return nodes.names[0], SUCCESS
        scores, status = attempt.framework.run_score(attempt.state, attempt.pod, nodes)
        if scores is None:
            return "", status
        attempt.decision.scored(scores)
        best = np.flatnonzero(scores.total == scores.total.max())
        return nodes.names[int(best[self._handle.rng.randrange(len(best))])], SUCCESS

    async def _post_filter(
        self, attempt: Attempt, outcome: FilterOutcome
    ) -> tuple[Status, PostFilterResult | None]:
        nomination, after = await attempt.framework.run_post_filter(attempt.state, attempt.pod, outcome)
        return Status.unschedulable(outcome.message(after.message)), nomination

    async def _bind(self, attempt: Attempt) -> None:
        assert attempt.placement is not None
        try:
            with attempt.placement:
                status = await self._binder.bind(attempt, attempt.placement)
        except Exception as error:
            log.exception("binding reservation %s failed", attempt.reservation.metadata.name)
            status = Status.failed(error)
        finally:
            self._binding.pop(attempt.uid, None)
        if status.is_success:
            self._bound(attempt)
            return
        nomination = taken_over(status, CLEARED, attempt.node_name)
        failure = Failure(attempt.pod, status, nomination, attempt.node_name, attempt.state)
        await self._failed(attempt, failure, freed=True)

    def _bind_ended(self, attempt: Attempt, task: asyncio.Task[None]) -> None:
        """Clean up after a task, which may have been cancelled before it started."""
        attempt.roll_back()
        if self._binding.get(attempt.uid) is task:
            del self._binding[attempt.uid]

    def _bound(self, attempt: Attempt) -> None:
        self.queue.done(attempt.uid)
        name, node_name = attempt.reservation.metadata.name, attempt.node_name
        attempt.decision.become("bound", node_name)
        note = f"Successfully assigned {name} to {node_name}"
        recorder = self._events[attempt.framework.profile_name]
        recorder.event(attempt.reservation, NORMAL, "Scheduled", note, action="Binding")
        assert attempt.placement is not None
        self._jobs.held.bound(attempt.uid)
        attempt.placement.post_bind()
        self._observe(attempt, "scheduled")

    # --- failures --------------------------------------------------------------------------------

    async def _failed(self, attempt: Attempt, failure: Failure, *, freed: bool = False) -> None:
        """Requeue the Reservation and record the failure. `freed`: its resources may help others."""
        framework, uid, status = attempt.framework, attempt.uid, failure.status
        self._jobs.held.release_of(attempt.pod, "failed", f"could not be bound: {status.message}")
        result: Outcome = "unschedulable" if status.is_rejected else "error"
        attempt.decision.fail("failed" if freed else result, status)
        self._observe(attempt, result)
        reservation = self._reservations.by_key(attempt.reservation.metadata.name)
        is_ours = (
            reservation is not None
            and reservation.metadata.uid == uid
            and not (self._checks_scheduler and reservation.scheduler_name != framework.profile_name)
        )
        if reservation is None or not is_ours or framework.handle.claim_failure(failure):
            self.queue.delete(uid)
        elif not reservation.is_unassigned:
            self.queue.done(uid)
        else:
            self.queue.update(new_reserve_pod(reservation))
            self.queue.requeue(attempt.item, rejected=status.is_rejected, placements_help=True)
        if freed:
            framework.handle.gave_back(attempt.pod)
        self._wake.set()
        if reservation is not None and is_ours:
            self._nominate(attempt, failure)
            await self._leave_word(reservation, framework.profile_name, status)
        framework.handle.tell_failure(failure)

    def _nominate(self, attempt: Attempt, failure: Failure) -> None:
        """Hold the resources that preemption frees for the next attempt, and no others."""
        if not failure.keeps_no_node and failure.nomination is not None:
            self._handle.nominator.add(attempt.pod, failure.nomination.nominated_node_name)
            self._promised.add(attempt.uid)
            return
        self._take_back_promise(attempt.uid)
        nominator = attempt.framework.reservations.nominator
        if nominator is not None:
            nominator.delete_nominated_reservation(attempt.pod)

    def _dropped(self, uid: str) -> None:
        self._take_back_promise(uid)
        self._jobs.held.released(uid, "a Reservation of the job is gone")

    def _take_back_promise(self, uid: str) -> None:
        self._promised.discard(uid)
        self._handle.nominator.delete(uid)

    async def _leave_word(self, reservation: Reservation, profile: str, status: Status) -> None:
        try:
            await failures.leave_word(
                self._client, self._events[profile], self._clock, self._handle.rng, reservation, status
            )
        except NotFound:
            self.queue.delete(reservation.metadata.uid)

    def _observe(self, attempt: Attempt, result: str) -> None:
        profile = attempt.framework.profile_name
        elapsed = self._clock.monotonic() - attempt.began
        attempt.decision.took("total", elapsed)
        counter(ATTEMPTS, result, profile).inc()
        histogram(ATTEMPT_DURATION, result, profile).observe(elapsed)


def _scheduling(profiles: Profiles) -> dict[str, Framework]:
    """Return the whole frameworks of the profiles that schedule Reservations."""
    wholes = {name: profiles.whole_of(name) for name in profiles.frameworks}
    return {
        name: whole
        for name, whole in wholes.items()
        if whole is not None and any(plugin == RESERVATION for plugin, _ in whole.enabled.at("bind", Bind))
    }
