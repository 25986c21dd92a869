"""PostFilter beside kube-scheduler.

kube-scheduler runs its own preemption for a pod that fits on no node. That cannot help a pod which koordpy
rejects whatever nodes there are, because of its quota say, or which is placed together with others: their
plugins preempt in PostFilter, as in Koordinator. Here those plugins get their PostFilter, one pod after the
other, in the one process that holds the Lease; meanwhile kube-scheduler goes on.

A pod also comes here if kube-scheduler itself found no node for it, so that no filter call followed, and
could not preempt for it either: its condition says so, and it has no nomination.
"""

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from koordpy.api.core import Pod
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.gangs.jobs import Jobs
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.pod_queues import WOKEN
from koordpy.scheduling.preemption.executor import nominate
from koordpy.scheduling.profiles.profiles import Profiles

log = logging.getLogger(__name__)

REST = 3.0
"""After a PostFilter, the event loop is left to kube-scheduler's calls for this multiple of its duration."""

AFTER_FAILURE = 10.0
"""Seconds after which a PostFilter that failed is run again, and before which it is not.

It fails if it may not evict pods, say. Until then it may have nominated pods, and taken that back: at each of
these kube-scheduler tries the pods again, without its backoff where it has nothing else to do.
"""

MOST_PODS = 1000
"""Pods that wait for their PostFilter; the oldest are dropped, since kube-scheduler retries them."""

LARGEST = 64 << 10
"""Bytes of the largest pod whose attempt is kept."""

NOMINATE_AGAIN = 10.0
"""Seconds before the same nomination of a pod is written again.

kube-scheduler clears nominations of pods that it does not place. Each time it then tries the pod again at
once, so that writing them as often would have it try such a pod without end.
"""

MOST_OUTCOMES = 16
"""Of these, the latest whose attempts are kept: the others are filtered again."""


@dataclass(slots=True)
class _Request:
    key: str
    state: CycleState | None = None
    outcome: FilterOutcome | None = None


class PostFilters:
    """The pods whose PostFilter is due; `run` while this process leads."""

    def __init__(self, profiles: Profiles, handle: Handle, jobs: Jobs) -> None:
        self._profiles, self._handle, self._jobs = profiles, handle, jobs
        self._pods, self._clock = handle.cluster.store(Pod), handle.clock
        self._due: OrderedDict[str, _Request] = OrderedDict()
        self._written: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """Which node was written to the status of a pod, by UID, and when."""
        self._failed: OrderedDict[str, tuple[float, str, str]] = OrderedDict()
        """When a PostFilter that failed is run again, with UID and key of the pod, by pod or job."""
        self._wake = asyncio.Event()
        self._leads = False
        self._used = any(framework.preempts_beside for framework in profiles.frameworks.values())
        if self._used:
            handle.on(Pod, update=self._pod_updated)

    def __bool__(self) -> bool:
        """Whether any plugin has a PostFilter beside kube-scheduler."""
        return self._used

    def ask(
        self,
        pod: Pod,
        state: CycleState | None = None,
        outcome: FilterOutcome | None = None,
        size: int = 0,
    ) -> None:
        """Run PostFilter for a pod soon, with the state and outcome of its attempt if they are given.

        `size` is about the length of the pod's JSON text: what is known of large pods is not kept.
        """
        framework = self._profiles.of(pod.spec.scheduler_name)
        if not self._leads or framework is None or not framework.preempts_beside:
            return
        if self._failed and self._id_of(framework, pod) in self._failed:
            return
        self._due.pop(pod.metadata.uid, None)
        is_kept = outcome is not None and size <= LARGEST
        key = pod.metadata.key
        self._due[pod.metadata.uid] = _Request(key, state, outcome) if is_kept else _Request(key)
        if len(self._due) > MOST_PODS:
            self._due.popitem(last=False)
        kept = [request for request in self._due.values() if request.outcome is not None]
        for request in kept[:-MOST_OUTCOMES]:
            request.state = request.outcome = None
        self._wake.set()

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        """Ask for a pod for which kube-scheduler has just found no node, or that was woken since.

        kube-scheduler does not try a pod again for an annotation if no extender has refused it.
        """
        if not self._leads or pod.spec.node_name:
            return
        if old.status.conditions == pod.status.conditions and _woken_at(old) == _woken_at(pod):
            return
        framework = self._profiles.of(pod.spec.scheduler_name)
        if framework is None or not framework.preempts_beside:
            return
        if pod.status.nominated_node_name and not self._jobs.concerns(framework, pod):
            return
        told = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        if told is not None and told.status == "False" and told.reason == "Unschedulable":
            self.ask(pod)

    # --- one after the other ---------------------------------------------------------------------

    async def run(self) -> None:
        """Run what is due until cancelled."""
        self._leads = True
        try:
            while True:
                while self._due:
                    uid, request = self._due.popitem(last=False)
                    began = self._clock.monotonic()
                    await self._run(uid, request)
                    await asyncio.sleep((self._clock.monotonic() - began) * REST)
                self._wake.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._retry_failed()):
                        await self._wake.wait()
        finally:
            self._leads = False
            self._due.clear()
            self._failed.clear()

    def _retry_failed(self) -> float | None:
        """Make due what failed a while ago; return the seconds until there is more, None if there is not."""
        now = self._clock.monotonic()
        while self._failed:
            id_, (when, uid, key) = next(iter(self._failed.items()))
            if when > now:
                return 0.0 if self._due else when - now
            del self._failed[id_]
            self._due.setdefault(uid, _Request(key))
        return 0.0 if self._due else None

    def _id_of(self, framework: Framework, pod: Pod) -> str:
        """Return what fails or succeeds as a whole: the job of a pod, or the pod."""
        return self._jobs.id_of(framework, pod) or pod.metadata.uid

    async def _run(self, uid: str, request: _Request) -> None:
        pod = self._pods.by_key(request.key)
        if pod is None or pod.metadata.uid != uid or not _is_pending(pod):
            return
        whole = self._profiles.whole_of(pod.spec.scheduler_name)
        framework = self._profiles.of(pod.spec.scheduler_name)
        if whole is None or framework is None or self._handle.nodes.placed_on(pod.metadata.uid) is not None:
            return
        state, outcome = request.state, request.outcome
        if state is None or outcome is None:
            found = self._look(framework, whole, pod)
            if found is None:
                return
            pod, state, outcome = found
        result, status = await whole.run_post_filter_beside(state, pod, outcome)
        if status.is_success or status.is_rejected:
            log.debug("PostFilter of pod %s: %s", pod.metadata.key, status.message or status.code.name)
        else:
            log.warning("PostFilter of pod %s failed: %s", pod.metadata.key, status.message)
            id_ = self._id_of(framework, pod)
            self._failed[id_] = (self._clock.monotonic() + AFTER_FAILURE, uid, request.key)
            self._failed.move_to_end(id_)
            if len(self._failed) > MOST_PODS:
                self._failed.popitem(last=False)
        live = self._pods.by_key(pod.metadata.key)  # evictions take time
        is_there = live is not None and live.metadata.uid == pod.metadata.uid and _is_pending(live)
        if result is not None and result.override and is_there:
            await self.nominate(pod, result)

    def _look(
        self, framework: Framework, whole: Framework, pod: Pod
    ) -> tuple[Pod, CycleState, FilterOutcome] | None:
        """Find out why a pod, or the job that it is in, finds no node; None if it does find one by now."""
        if self._jobs.concerns(framework, pod):
            if not self._jobs.is_planned(framework, pod):
                self._tell_incomplete(framework, whole, pod)
                return None
            refused = self._jobs.examine(framework, pod)
            if refused is None or refused.outcome is None:
                return None
            return refused.pod, refused.state, refused.outcome
        state = whole.new_state()
        outcome = whole.find_feasible(state, pod, self._handle.nodes.all())
        if outcome.error is not None or (outcome.prefilter.is_success and outcome.feasible.any()):
            return None
        return pod, state, outcome

    def _tell_incomplete(self, framework: Framework, whole: Framework, pod: Pod) -> None:
        """Report that a pod is refused because its job is incomplete, so that it is woken once it is not.

        kube-scheduler found no node for it and so called no filter, which would have reported that.
        """
        state = whole.new_state()
        outcome = whole.find_feasible(state, pod, self._handle.nodes.all())
        if outcome.prefilter.is_rejected:
            failure = Failure(pod, outcome.prefilter, state=state, outcome=outcome)
            framework.handle.tell_failure(failure)

    async def nominate(self, pod: Pod, result: PostFilterResult, *, is_planned: bool = False) -> None:
        """Write a pod's nomination, unless it has it already.

        Unless its place is planned, a nomination that it had a moment ago is not written again: the pod is
        only nominated here, which keeps its place from pods that koordpy filters.
        """
        client, name = self._handle.client, result.nominated_node_name
        if client is None or pod.status.nominated_node_name == name:
            return
        uid, now = pod.metadata.uid, self._clock.monotonic()
        if not name:
            self._handle.nominator.delete(uid)
        else:
            self._handle.nominator.add(pod, name)
            if not is_planned and self._is_written(uid, name, now):
                return
        await nominate(client, pod, name)

    def _is_written(self, uid: str, node_name: str, now: float) -> bool:
        """Return whether a nomination was written a moment ago; if not, remember that it is written now."""
        while self._written:
            oldest, (_, written) = next(iter(self._written.items()))
            if now - written < NOMINATE_AGAIN and len(self._written) < MOST_PODS:
                break
            del self._written[oldest]
        known = self._written.get(uid)
        if known is not None and known[0] == node_name:
            return True
        self._written[uid] = (node_name, now)
        self._written.move_to_end(uid)
        return False


def _woken_at(pod: Pod) -> str | None:
    return pod.metadata.annotations.get(WOKEN)


def _is_pending(pod: Pod) -> bool:
    return not (pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp)
