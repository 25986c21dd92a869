"""From kube-scheduler's bind call to a bound pod: Reserve, Permit, PreBind, Bind, PostBind.

This is the commit point. Up to Reserve the steps are in `reserving`; all of them, and their rollback, are the
placement's (`koordpy.scheduling.cycle.placement`). This module answers kube-scheduler, which retries.

None of this happens while another process may be doing the same (`koordpy.scheduling.cycle.fence`).

Cases that kube-scheduler cannot know of are handled here: a bind repeated after a lost answer, a pod that was
replaced, deleted or already bound, a caller that disconnected.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from koordpy.api.core import Pod
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound, ServerError, TooManyRequests
from koordpy.cluster.retry import retried
from koordpy.scheduling.cycle.fence import Closed, Fence
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.plans import Plans
from koordpy.scheduling.cycle.tentative import TentativeReserves
from koordpy.scheduling.explain.decisions import Decision, Decisions
from koordpy.scheduling.explain.history import Histories
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import (
    ATTEMPT_DURATION,
    ATTEMPTS,
    ATTEMPTS_KEPT,
    WAITING_PODS,
    counter,
    histogram,
)
from koordpy.scheduling.gangs.held import HeldPlans
from koordpy.scheduling.interface.failure import Failure, taken_over
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.preemption.executor import nominate
from koordpy.scheduling.profiles.profiles import Profiles

from .attempts import Attempt, Attempts
from .bound_pods import BoundPods
from .reserving import Reserving
from .wire import BindingArgs

log = logging.getLogger(__name__)

Gone = Callable[[], Awaitable[None]]
"""Returns when the caller has disconnected."""


class BindCycle:
    """Runs bind calls, each independently."""

    def __init__(
        self,
        profiles: Profiles,
        handle: Handle,
        attempts: Attempts,
        decisions: Decisions,
        histories: Histories,
        plans: Plans,
        fence: Fence,
        held: HeldPlans,
        tentative: TentativeReserves,
    ) -> None:
        self.profiles = profiles
        self.handle = handle
        self.nodes = handle.nodes
        self.attempts = attempts
        self.decisions = decisions
        self.histories = histories
        self.plans = plans
        self.fence, self.held = fence, held
        self._reserving = Reserving(handle.cluster, attempts, plans, tentative)
        self.on_asked: Callable[[], None] | None = None
        self._running: dict[str, tuple[str, asyncio.Future[str]]] = {}
        self._names: dict[str, tuple[Attempt, asyncio.Future[None]]] = {}
        """The attempts that are being bound, and their ends, by the keys of the pods."""
        self._closed = ""
        self.bound = BoundPods(handle)

    async def bind(self, args: BindingArgs, gone: Gone | None) -> str:
        """Bind a pod; return why not, empty when it is bound. A repeated call shares the running one."""
        self.asked()
        running = self._running.get(args.pod_uid)
        if running is not None:
            node, future = running
            if node != args.node:
                return f"pod {_key(args)} is being bound to node {node}, not to {args.node}"
            return await asyncio.shield(future)
        future = asyncio.get_running_loop().create_future()
        self._running[args.pod_uid] = (args.node, future)
        error = f"bind of pod {_key(args)} was cancelled"
        self.histories.binding(args.pod_uid, args.node)
        try:
            error = await self._bind(args, gone)
        except Exception as unforeseen:
            log.exception("bind of pod %s to node %s broke", _key(args), args.node)
            error = f"koordpy: {type(unforeseen).__name__}: {unforeseen}"
        finally:
            del self._running[args.pod_uid]
            future.set_result(error)
            self.histories.bind_ended(args.pod_uid, args.node, error)
        return error

    def asked(self) -> None:
        """Record that this process is the one that kube-scheduler calls."""
        if self.on_asked is not None:
            self.on_asked()

    def supersede(self, attempt: Attempt) -> str:
        """End the earlier attempt of the same pod; return why that is not possible now."""
        earlier = self.attempts.get(attempt.pod.metadata.uid)
        if earlier is None:
            return ""
        if earlier.is_waiting:
            self.end(earlier, "a new scheduling attempt of the pod has begun")
        elif earlier.binding_to:
            return f"pod {attempt.pod.metadata.key} is still being bound to node {earlier.binding_to}"
        self.attempts.discard(earlier)
        return ""

    def end(self, attempt: Attempt, why: str) -> None:
        """End an attempt whose pod is waiting in Permit, at once."""
        if attempt.placement is not None and attempt.placement.roll_back(why):
            attempt.is_superseded = True

    def close(self, why: str) -> None:
        """End every attempt that waits in Permit, and every later one that would."""
        self._closed = why
        for attempt in self.attempts:
            if attempt.is_waiting:
                self.end(attempt, why)

    # --- the cycle -------------------------------------------------------------------------------

    async def _bind(self, args: BindingArgs, gone: Gone | None) -> str:
        try:
            term = self.fence.term or await self.fence.entered(gone)
        except Closed as closed:
            return f"pod {_key(args)} cannot be bound now: {closed}"
        key = _key(args)
        while True:
            former = self.bound.get(key)
            pod, error = await self._pod(args)
            if pod is None:
                return error
            if key in self._names:
                await self._end_of(key)
            elif self.bound.get(key) is former:
                break
        if pod.spec.node_name:
            if pod.spec.node_name == args.node:
                return ""
            return f"pod {_key(args)} is already bound to node {pod.spec.node_name}, not to {args.node}"
        framework = self.profiles.of(pod.spec.scheduler_name)
        if framework is None:
            return f"no profile for schedulerName {pod.spec.scheduler_name!r} of pod {_key(args)}"
        self.bound.forget_other(key, args.pod_uid)
        attempt, ended = self._attempt(pod, framework), asyncio.get_running_loop().create_future()
        self._names[key] = attempt, ended
        status = Status.failed(f"bind of pod {_key(args)} was cancelled")
        try:
            status = await self._place(attempt, args.node, term, gone)
        except Exception as unforeseen:
            log.exception("bind of pod %s to node %s broke", _key(args), args.node)
            status = Status.failed(f"koordpy: {type(unforeseen).__name__}: {unforeseen}")
        finally:
            error = self._finish(attempt, args.node, status)
            del self._names[key]
            ended.set_result(None)
        return error

    async def _end_of(self, key: str) -> None:
        """Wait until nothing is held for an earlier pod of that name, by which plugins may know both."""
        earlier, ended = self._names[key]
        if earlier.is_waiting:
            self.end(earlier, f"pod {key} was deleted, and another one has its name")
        await asyncio.shield(ended)

    async def _pod(self, args: BindingArgs) -> tuple[Pod | None, str]:
        """Find the pod: from the watch; if the watch is behind, from filter or the API server.

        The API server refuses an outdated pod: the Binding names its UID. If another pod of that name is
        being bound, or was, it says which of them exists.
        """
        pod, key = self.handle.cluster.store(Pod).get(args.pod_namespace, args.pod_name), _key(args)
        is_contested = key in self._names or self.bound.has_other(key, args.pod_uid)
        if is_contested and self.handle.client is not None:
            pod = None
        elif pod is None:
            attempt = self.attempts.get(args.pod_uid)
            if attempt is not None and not attempt.is_condensed and attempt.pod.metadata.key == _key(args):
                return attempt.pod, ""
        if (pod is None or pod.metadata.uid != args.pod_uid) and self.handle.client is not None:
            try:
                pod = await self.handle.client.get(Pod, args.pod_namespace, args.pod_name)
            except NotFound:
                pod = None
            except (ApiError, ConnectionFailed) as error:
                return None, f"pod {_key(args)} cannot be read: {error}"
        if pod is None:
            return None, f"pod {_key(args)} not found"
        if pod.metadata.uid != args.pod_uid:
            return None, f"pod {_key(args)} has UID {pod.metadata.uid}, expected {args.pod_uid}"
        return pod, ""

    def _attempt(self, pod: Pod, framework: Framework) -> Attempt:
        """Return the attempt that filter stored, or start a new one if it is lost (a restart)."""
        attempt = self.attempts.get(pod.metadata.uid)
        if attempt is not None and attempt.framework is framework:
            attempt.pod = pod
            return attempt
        clock = self.handle.clock
        decision = Decision(pod, framework.profile_name, clock.now(), framework.weights)
        self.decisions.begin(decision)
        attempt = Attempt(pod, framework, framework.new_state(), decision, clock.monotonic())
        self.attempts.put(attempt)
        return attempt

    def reserve_ahead(self, attempt: Attempt) -> None:
        """Reserve the only node that filter has answered for a pod; the bind call takes over."""
        term, meta = self.fence.term, attempt.pod.metadata
        if not term or meta.uid in self._running or meta.key in self._names:
            return
        if not self.bound.has_other(meta.key, meta.uid):
            self._reserving.reserve_ahead(attempt, term)

    async def _place(self, attempt: Attempt, node_name: str, term: int, gone: Gone | None) -> Status:
        scored = attempt.state
        ahead = self._reserving.take_over(attempt, node_name, term)
        held = ahead or self.held.take(attempt.pod.metadata.uid, node_name)
        if held is None:
            status = self._reserving.check(attempt, node_name, term)
            if not status.is_success:
                return status
        else:
            attempt.state = held.state
        with held or Placement(attempt.framework, attempt.state, attempt.pod, node_name) as placement:
            attempt.placement = placement
            attempt.shed()
            attempt.decision.become("binding", node_name)
            status = SUCCESS
            if held is None:
                status = self._reserving.reserve(placement, scored)
            attempt.pod = placement.pod
            if status.is_success:
                status = placement.permit()
            if status.code is Code.WAIT:
                status = await self._wait(attempt, placement, gone)
            if status.is_success:
                status = await placement.pre_bind()
            if status.is_success:
                attempt.was_written = True
                status = await placement.write(self._write(placement, term))
        return status

    async def _wait(self, attempt: Attempt, placement: Placement, gone: Gone | None) -> Status:
        if self._closed:
            return Status.failed(self._closed)
        waits = placement.waits.items()
        waiting_for = ", ".join(f"{plugin} (at most {seconds:g} s)" for plugin, seconds in waits)
        self.histories.waiting(attempt.pod.metadata.uid, waiting_for)
        attempt.decision.become("waiting")
        hang_up = asyncio.ensure_future(self._end_when_gone(attempt, gone)) if gone is not None else None
        with WAITING_PODS.track_inprogress():
            try:
                status = await placement.allowed()
            finally:
                if hang_up is not None:
                    hang_up.cancel()
        if attempt.is_superseded:
            return status
        if status.is_success:
            self.histories.allowed(attempt.pod.metadata.uid)
        attempt.decision.become("binding")
        return status

    async def _end_when_gone(self, attempt: Attempt, gone: Gone) -> None:
        await gone()
        if attempt.is_waiting:
            self.end(attempt, "kube-scheduler disconnected while the pod waited")

    async def _write(self, placement: Placement, term: int) -> Status:
        """Bind while the Lease under which the pod was reserved is held."""
        status = await self.fence.write(term, placement.bind())
        if status.is_skip:
            profile, key = placement.framework.profile_name, placement.pod.metadata.key
            status = Status.failed(f"no Bind plugin of profile {profile} binds pod {key}")
        if status.is_success or await self._is_bound_anyway(placement, status):
            return SUCCESS
        if term == self.fence.term:
            await placement.unmark()
        return status

    async def _is_bound_anyway(self, placement: Placement, status: Status) -> bool:
        """After a failed Bind, read the pod: an earlier call with a lost answer may have bound it.

        The read is retried until it is answered: resources released too early would be allocated twice.
        """
        client = self.handle.client
        if client is None or not isinstance(status.error, ApiError | ConnectionFailed):
            return False
        meta, node_name = placement.pod.metadata, placement.node_name

        async def read() -> Pod | None:
            try:
                return await client.get(Pod, meta.namespace, meta.name)
            except NotFound:
                return None

        unanswered = (ServerError, TooManyRequests, ConnectionFailed)
        try:
            live = await retried(read, rng=self.handle.rng, steps=8, initial=0.05, factor=2.5, on=unanswered)
        except (ApiError, ConnectionFailed):
            return False
        return live is not None and live.metadata.uid == meta.uid and live.spec.node_name == node_name

    def _finish(self, attempt: Attempt, node_name: str, status: Status) -> str:
        decision, framework = attempt.decision, attempt.framework
        placement, attempt.placement = attempt.placement, None
        self.attempts.discard(attempt)
        ATTEMPTS_KEPT.set(len(self.attempts))
        if placement is None or not status.is_success:
            decision.fail("superseded" if attempt.is_superseded else "failed", status)
            self.plans.failed(attempt.pod)
            if not attempt.was_written:
                self.held.release_of(attempt.pod, "failed", f"could not be bound: {status.message}")
            self._nominate(attempt.pod, taken_over(status, None, node_name))
            framework.handle.report_failure(
                Failure(attempt.pod, status, node_name=node_name, state=attempt.state)
            )
            if attempt.was_written:
                self.held.hold_again(attempt.pod, node_name)
            if placement is not None and placement.was_reserved:
                framework.handle.gave_back(placement.pod)
            result = "unschedulable" if status.is_rejected else "error"
        else:
            decision.bound(node_name, placement.binding.annotations, placement.binding.remarks)
            self.held.bound(attempt.pod.metadata.uid)
            placement.post_bind()
            self.bound.add(attempt.pod, node_name, framework.handle, is_gone=attempt.is_gone)
            self.bound.forget_vanished()
            result = "scheduled"
        elapsed = self.handle.clock.monotonic() - attempt.began
        decision.took("total", elapsed)
        counter(ATTEMPTS, result, framework.profile_name).inc()
        histogram(ATTEMPT_DURATION, result, framework.profile_name).observe(elapsed)
        if status.is_success:
            return ""
        by = f"{status.plugin}: " if status.plugin else ""
        return f"{by}{status.message or status.code.name}"

    def _nominate(self, pod: Pod, result: PostFilterResult | None) -> None:
        """Write the nomination with which a waiting pod was rejected because of its job."""
        client = self.handle.client
        if result is None or not result.override or client is None:
            return
        if pod.status.nominated_node_name != result.nominated_node_name:
            self.handle.spawn(nominate(client, pod, result.nominated_node_name))

    def deleted(self, pod: Pod) -> None:
        """Forget a pod if it is gone before the watch has shown it on the node that it was bound to."""
        attempt = self.attempts.get(pod.metadata.uid)
        if attempt is not None and attempt.placement is not None:
            attempt.is_gone = True
        self.bound.deleted(pod)


def _key(args: BindingArgs) -> str:
    return f"{args.pod_namespace}/{args.pod_name}"
