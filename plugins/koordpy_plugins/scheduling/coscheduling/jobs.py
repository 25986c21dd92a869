"""Groups of gangs as jobs: beside kube-scheduler all pending pods of a group are planned at once."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.pre_enqueue_gates import gate_of
from koordpy.scheduling.interface import Job
from koordpy.scheduling.interface.auditor import RecordType
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import Status

from .conditions import PendingConditions
from .eligibility import eligibility
from .rounds import GangRounds
from .state.context import ALL_ATTEMPTED, SUCCEEDED, ContextHolder
from .state.gang_cache import GangCache
from .topology.members import in_order_of_index
from .waiting import GangWaiting

SHORTEST_SECONDS: Final = 1.0
"""The shortest time for which a plan waits for its pods, whatever the gang's wait time is."""


class GangJobs:
    """Tells which pods are planned together, and what that ends with."""

    def __init__(
        self,
        name: str,
        handle: Handle,
        cache: GangCache,
        holder: ContextHolder,
        rounds: GangRounds,
        waiting: GangWaiting,
        conditions: PendingConditions,
    ) -> None:
        self._gate, self._handle, self._cache, self._holder = gate_of(name), handle, cache, holder
        self._rounds, self._waiting, self._conditions = rounds, waiting, conditions
        self._pods = handle.cluster.store(Pod)

    def job_of(self, pod: Pod) -> Job | None:
        """Return the pending pods of a pod's group if the group is complete and still needs its minimum."""
        found = eligibility(self._cache, pod)
        if found.gang is None or found.reason:
            return None
        settings = found.gang.settings
        pending = {
            live.metadata.uid: live
            for gang in self._cache.known(settings.group)
            for key, member in gang.pending.items()
            # The gang keeps the object from before the pod finished.
            if self._can_be_bound(live := self._pods.by_key(key) or member)
            and live.spec.scheduler_name == pod.spec.scheduler_name
        }
        if pod.metadata.uid not in pending:
            return None
        return Job(
            settings.group_id,
            tuple(self._minimums_first(settings.group, in_order_of_index(pending.values()), pod)),
            partial(self._suffices, settings.group),
            max(settings.wait_seconds, SHORTEST_SECONDS),
        )

    def _minimums_first(self, group: Collection[str], pods: Sequence[Pod], first: Pod) -> Sequence[Pod]:
        """Move what gangs have beyond their minimums to the end: it must not take the room of other gangs.

        `first`, which is placed before all others, counts for the minimum of its gang.
        """
        if len(group) == 1:
            return pods
        surplus: set[str] = set()
        for gang in self._cache.known(group):
            mine = [pod for pod in pods if pod.metadata.key in gang.pending]
            mine.sort(key=lambda pod: pod.metadata.uid != first.metadata.uid)
            surplus.update(pod.metadata.uid for pod in mine[max(gang.missing, 0) :])
        return sorted(pods, key=lambda pod: pod.metadata.uid in surplus)

    def _can_be_bound(self, pod: Pod) -> bool:
        """Whether kube-scheduler will ask to bind a pod: our own gate is about to be removed."""
        return (
            not pod.metadata.deletion_timestamp
            and not pod.is_terminal
            and all(gate.name == self._gate for gate in pod.spec.scheduling_gates)
        )

    def _suffices(self, group: Collection[str], placed: Collection[str]) -> bool:
        gangs = list(self._cache.known(group))
        return len(gangs) == len(group) and all(gang.is_satisfied(placed) for gang in gangs)

    def planning(self, job: Job) -> None:
        """Begin the round of a group."""
        gang = self._cache.gang_of(job.pods[0])
        if gang is not None:
            context = self._holder.current = self._rounds.new_context(gang, job.pods[0])
            context.job_pods = job.pods
            context.attempted.clear()  # the pod of the attempt is tried first, wherever it is in the order

    def job_planned(self) -> None:
        """End the round of a group whose pods have nodes."""
        self._holder.end(SUCCEEDED)

    def job_examined(self) -> None:
        """End the round of a group that was planned only to see whether it fits."""
        self._holder.current = None

    def job_refused(self, job: Job, status: Status) -> None:
        """End the round of a group whose pods do not fit: those that wait in Permit wait in vain."""
        self._holder.end(ALL_ATTEMPTED)
        gang = self._cache.gang_of(job.pods[0])
        if gang is None or not status.is_rejected:
            return
        gang.group.clear_waiting()
        self._waiting.reject(gang.settings.group, status.message)
        self._handle.auditor.gang_result(job.id, RecordType.GANG_ATTEMPTED, status.message)
        self._conditions.patch_new(job.pods, status.message)
