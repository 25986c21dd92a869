"""The step of a migration that evicts its pod, at most once.

The process may end between the eviction and the write of the condition that says so. Therefore the pod's UID
is written into an annotation of the job before the request: a process that finds it there, and the pod gone
or about to end, knows that the pod was evicted. Source of the rest: Koordinator, `evictPod` of
`pkg/descheduler/controllers/migration/controller.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from koordpy.api import pod_migration_job as pmj
from koordpy.api.core import Pod
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.reservation import SUCCEEDED
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import NotFound
from koordpy.controllers.reconcile import ReconcileError

from .evictions import EvictionFailed
from .limiter_protocol import Limiter
from .progress import FALSE, TRUE, Progress, quoted, trigger_and_reason
from .reservations import Reservations

ANNOTATION_EVICTING: Final = "koordpy.dev/evicting"
"""On a job: the UID of the pod for which an eviction was requested, or is about to be."""

AGAIN: Final = 3.0
"""Seconds until a job that waits is reconciled again, if nothing wakes it earlier."""


class Evictor(Protocol):
    """Evicts pods; see `evictions.PodEvictions`."""

    def admit(self) -> None:
        """Take a token of the rate limit. Raises EvictionFailed if there is none."""
        ...

    def is_requested(self, job: PodMigrationJob, pod: Pod) -> bool:
        """Return whether the pod itself shows that it was to be evicted."""
        ...

    async def failure(self, job: PodMigrationJob, pod: Pod) -> str | None:
        """Return why a pod that was asked to leave will not, None if it may."""
        ...

    async def evict(self, job: PodMigrationJob, pod: Pod, options: Mapping[str, Any] | None) -> None:
        """Evict a pod, or begin to. Raises EvictionFailed."""
        ...


@dataclass(frozen=True)
class Step:
    """How far the eviction is: complete, or to be tried again after some seconds, or never (None)."""

    complete: bool
    again: float | None = None


_COMPLETE, _ENDED, _WAITS = Step(True), Step(False), Step(False, AGAIN)


class EvictionStep:
    """Evicts the pods of jobs. `default_options` are the DeleteOptions of jobs without any."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        reservations: Reservations,
        evictor: Evictor,
        limiter: Limiter,
        default_options: Mapping[str, Any] | None,
    ) -> None:
        self._pods, self._client = cluster.store(Pod), client
        self._reservations, self._evictor, self._limiter = reservations, evictor, limiter
        self._default_options = default_options
        self._refused: dict[str, str] = {}
        """Pods, by the UIDs of their jobs, that certainly were not evicted by this process's last request."""

    def forget(self, uid: str) -> None:
        """Forget the job of that UID."""
        self._refused.pop(uid, None)

    async def run(self, progress: Progress) -> Step:
        """Evict the pod of a job, or find out how far its eviction is.

        Raises ReconcileError if the eviction failed, besides what writes raise.
        """
        eviction = progress.job.condition(pmj.CONDITION_EVICTION)
        if eviction is not None and eviction.status == TRUE:
            return _COMPLETE
        pod = self._pod(progress)
        if eviction is None and pod is not None:
            pod = await self._current(pod)
        if pod is None or self._is_successor(progress, pod):
            return await self._gone(progress)
        if eviction is not None and eviction.reason == pmj.REASON_EVICTING:
            failure = await self._evictor.failure(progress.job, pod)
            if failure is None or pod.metadata.deletion_timestamp is not None:
                return _WAITS
            await progress.fail(pmj.REASON_FAILED_EVICT, failure)
            return _ENDED
        if await self.fail_if_bound_by_another(progress, None):
            return _ENDED
        if not self._is_under_way(progress, pod):
            await self._evict(progress, pod)
        self._limiter.track(pod)
        _, reason = trigger_and_reason(progress.job)
        node = quoted(pod.spec.node_name)
        message = f"Pod {progress.pod} evicted from node {node} by the reason {quoted(reason)}"
        await progress.update_condition(pmj.CONDITION_EVICTION, FALSE, pmj.REASON_EVICTING, message)
        progress.note(pmj.REASON_EVICTING, message)
        return _WAITS

    # --- the pod ---------------------------------------------------------------------------------

    def _pod(self, progress: Progress) -> Pod | None:
        reference = progress.pod_ref
        if not reference.namespace or not reference.name:
            return None
        return self._pods.get(reference.namespace, reference.name)

    async def _current(self, pod: Pod) -> Pod | None:
        """Return the pod as the API server has it now, None if it is gone."""
        try:
            return await self._client.get(Pod, pod.metadata.namespace, pod.metadata.name)
        except NotFound:
            return None

    def _is_successor(self, progress: Progress, pod: Pod) -> bool:
        """Return whether the pod of that name is another one than the evicted one.

        Before an eviction Koordinator does not ask, and evicts the pod that has the name now.
        """
        known = progress.job.condition(pmj.CONDITION_EVICTION)
        if known is None:
            uid = progress.job.metadata.annotations.get(ANNOTATION_EVICTING)
            return self._may_be_evicted(progress.job) and uid != pod.metadata.uid
        return bool(progress.job.pod_uid) and progress.job.pod_uid != pod.metadata.uid

    async def _gone(self, progress: Progress) -> Step:
        job = progress.job
        if job.status.status != pmj.CONDITION_EVICTION and not self._may_be_evicted(job):
            await self.fail_for_missing_pod(progress)
            return _ENDED
        await progress.update_condition(pmj.CONDITION_EVICTION, TRUE, pmj.REASON_EVICT_COMPLETE)
        progress.note(pmj.REASON_EVICT_COMPLETE, f"Pod {progress.pod} has been evicted")
        return _COMPLETE

    # --- the eviction ----------------------------------------------------------------------------

    def _may_be_evicted(self, job: PodMigrationJob) -> bool:
        """Return whether an eviction was requested and may have succeeded."""
        uid = job.metadata.annotations.get(ANNOTATION_EVICTING)
        return uid is not None and self._refused.get(job.metadata.uid) != uid

    def _is_under_way(self, progress: Progress, pod: Pod) -> bool:
        """Return whether the pod must not be evicted again: it ends already, or was asked to."""
        if pod.metadata.deletion_timestamp is not None:
            return True
        return self._may_be_evicted(progress.job) and self._evictor.is_requested(progress.job, pod)

    async def _evict(self, progress: Progress, pod: Pod) -> None:
        try:
            self._evictor.admit()
            await self._announce(progress, pod)
            job = progress.job
            options = job.spec.delete_options
            self._refused.pop(job.metadata.uid, None)
            await self._evictor.evict(job, pod, options if options is not None else self._default_options)
        except EvictionFailed as error:
            if error.certain:
                self._refused[progress.job.metadata.uid] = pod.metadata.uid
            progress.warn(pmj.REASON_EVICTING, f"Failed evict Pod {progress.pod} caused by {error}")
            message = f"{error}: {error.detail}" if error.detail else str(error)
            raise ReconcileError(message, level=error.level) from error

    async def _announce(self, progress: Progress, pod: Pod) -> None:
        """Write down which pod is about to be evicted. Raises Conflict if the job was changed meanwhile.

        Where the job says so already, the write changes nothing but still shows that the job is the newest.
        """
        await progress.write({"metadata": {"annotations": {ANNOTATION_EVICTING: pod.metadata.uid}}})

    # --- ends of a job ---------------------------------------------------------------------------

    async def fail_for_missing_pod(self, progress: Progress) -> None:
        """End a job whose pod is gone."""
        await progress.fail(pmj.REASON_MISSING_POD, f"Abort job caused by missing Pod {progress.pod}")

    async def fail_for_missing_reservation(self, progress: Progress) -> None:
        """End a job whose Reservation is gone."""
        name = quoted(f"/{progress.reservation_name}")
        message = f"Abort job caused by missing Reservation {name}"
        await progress.fail(pmj.REASON_MISSING_RESERVATION, message)

    async def fail_if_bound_by_another(self, progress: Progress, pod: Pod | None) -> bool:
        """End a job whose Reservation another pod than `pod` has used up; return whether that was so."""
        name = progress.reservation_name
        if name is None:
            return False
        try:
            reservation = await self._reservations.get(name)
        except NotFound:
            await self.fail_for_missing_reservation(progress)
            raise
        if reservation.status.phase != SUCCEEDED:
            return False
        owners = reservation.status.current_owners
        if pod is not None and owners and owners[0].uid == pod.metadata.uid:
            return False
        await progress.fail(pmj.REASON_FORBIDDEN_MIGRATE_POD, "Reservation is already bound by another Pod")
        return True
