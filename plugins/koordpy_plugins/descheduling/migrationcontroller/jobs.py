"""The PodMigrationJobs that have not ended, and which of them have passed arbitration.

A job that this process created counts although its watch event has not arrived yet, so that a round does not
exceed a limit. (Koordinator reads its informer's cache, and may.) Nothing here outlives a restart: pending
jobs are arbitrated again, running ones count by their phase.
"""

from collections import OrderedDict

from koordpy.api.core import Pod
from koordpy.api.pod_migration_job import CONDITION_EVICTION, SUCCEEDED, PodMigrationJob
from koordpy.cluster.store import Store
from koordpy.descheduling.interface import Handle
from koordpy.lib.clock import Clock

from .eviction_step import ANNOTATION_EVICTING
from .job_table import JobTable
from .obstacles import Obstacles
from .progress import TRUE

UNSEEN_FOR = 60.0
"""Seconds for which a created job counts before its watch event arrives."""
MAX_UNSEEN = 10_000
"""Created jobs that are remembered at most; the oldest is forgotten first."""


class MigrationJobs:
    """Follows the jobs and pods of a cluster."""

    def __init__(self, handle: Handle) -> None:
        self.store: Store[PodMigrationJob] = handle.cluster.store(PodMigrationJob)
        self._clock: Clock = handle.clock
        self._not_evicted = handle.not_evicted
        self._pods = handle.cluster.store(Pod)
        self.unfinished = JobTable(self._pods, handle.pods.all_on)
        """The pending and running ones."""
        self.started = JobTable(self._pods, handle.pods.all_on)
        """Those that are running, or pending after they passed arbitration."""
        self.obstacles = Obstacles()
        """Why the last attempts to carry out jobs failed."""
        self._passed: set[str] = set()
        self._unseen: OrderedDict[str, float] = OrderedDict()
        self.store.subscribe(self._seen, lambda _, job: self._seen(job), self._gone)
        self._pods.subscribe(self._pod_changed, self._pod_updated, self._pod_changed, replay=False)

    def created(self, job: PodMigrationJob) -> None:
        """Count a job that the API server just created."""
        self.forget_unseen()
        uid = job.metadata.uid
        known = self.store.get("", job.metadata.name)
        if known is not None and known.metadata.uid == uid:
            return
        self._unseen[uid] = self._clock.monotonic()
        self.unfinished.add(job)
        if len(self._unseen) > MAX_UNSEEN:
            self.unfinished.discard(self._unseen.popitem(last=False)[0])

    def mark_passed(self, job: PodMigrationJob) -> None:
        """Count a job as passed: other arbitrated jobs now see it. One that is gone is not counted."""
        known = self.store.get("", job.metadata.name)
        if known is None or known.metadata.uid != job.metadata.uid:
            return
        self._passed.add(job.metadata.uid)
        if known.is_unfinished:
            self.started.add(known)

    def mark_ended(self, job: PodMigrationJob) -> None:
        """Stop counting a job that was just ended, before its watch event arrives."""
        self._gone(job)

    def has_passed(self, job: PodMigrationJob) -> bool:
        """Return whether a job may be carried out: it is running, or pending and has passed arbitration."""
        return job.is_running or (job.is_pending and job.metadata.uid in self._passed)

    def _seen(self, job: PodMigrationJob) -> None:
        uid = job.metadata.uid
        self._unseen.pop(uid, None)
        if not job.is_unfinished:
            self._gone(job)
            return
        self.unfinished.add(job)
        if self.has_passed(job):
            self.started.add(job)

    def _gone(self, job: PodMigrationJob) -> None:
        uid = job.metadata.uid
        if uid in self.unfinished and not self._has_evicted(job):
            self._not_evicted(job.pod_uid)
        self._passed.discard(uid)
        self.unfinished.discard(uid)
        self.started.discard(uid)

    def _has_evicted(self, job: PodMigrationJob) -> bool:
        """Return whether a job that has ended, or was deleted, has evicted its pod before."""
        eviction = job.condition(CONDITION_EVICTION)
        if job.status.phase == SUCCEEDED or (eviction is not None and eviction.status == TRUE):
            return True
        if eviction is None and ANNOTATION_EVICTING not in job.metadata.annotations:
            return False
        pod = self._pods.by_key(job.pod_key)
        return (
            pod is None
            or pod.metadata.uid != job.pod_uid
            or pod.metadata.deletion_timestamp is not None
            or pod.is_terminal
        )

    def forget_unseen(self) -> None:
        """Stop counting created jobs that did not appear in time: they were deleted at once."""
        oldest = self._clock.monotonic() - UNSEEN_FOR
        while self._unseen and next(iter(self._unseen.values())) < oldest:
            self.unfinished.discard(self._unseen.popitem(last=False)[0])

    def _pod_changed(self, pod: Pod) -> None:
        self.unfinished.pod_changed(pod)
        self.started.pod_changed(pod)

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        if (
            old.spec.node_name != pod.spec.node_name
            or old.metadata.owner_references != pod.metadata.owner_references
        ):
            self._pod_changed(old)
            self._pod_changed(pod)
