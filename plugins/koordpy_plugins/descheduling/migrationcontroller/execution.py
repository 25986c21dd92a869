"""The loop that carries out PodMigrationJobs while this process leads.

Jobs are reconciled when they change, when their pod or Reservation changes, and every few seconds while
they wait. A job starts once it has passed arbitration in this process, so that nobody starts one by writing
the annotation; one that does not pass within its TTL times out. Nothing but the jobs themselves says how far
they are: after a restart, or in another process, they go on where they were.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from koordpy.api.core import Pod
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.reservation import Reservation
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed
from koordpy.controllers.queue import RetryLimiter, WorkQueue
from koordpy.controllers.reconcile import ReconcileError, reconcile_forever
from koordpy.lib.clock import Clock

from .cleanup import Cleanup
from .obstacles import Obstacles
from .reconciler import Reconciler, version_of

log = logging.getLogger(__name__)

NAME = "podmigrationjobs"

LONGEST_BACKOFF = 30.0
"""Seconds between two attempts at most, so that a job that cannot go on ends soon after its TTL.

Koordinator waits up to 1000.
"""


class JobExecution:
    """Wakes jobs and carries them out, `workers` at a time; what jobs leave behind goes to `cleanup`.

    `may_start` returns whether a job has passed arbitration; why attempts fail goes to `obstacles`. Create it
    before the informers start.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        reconciler: Reconciler,
        cleanup: Cleanup,
        *,
        workers: int,
        may_start: Callable[[PodMigrationJob], bool],
        obstacles: Obstacles | None = None,
    ) -> None:
        self._may_start = may_start
        self._obstacles = obstacles or Obstacles()
        self._clock, self._reconciler, self._cleanup, self._workers = clock, reconciler, cleanup, workers
        self._queue: WorkQueue | None = None
        self._jobs = cluster.store(PodMigrationJob)
        self._by_pod = self._jobs.index(_pods)
        self._by_reservation = self._jobs.index(_reservations)
        self._jobs.subscribe(self._changed, lambda _, new: self._changed(new), self._deleted)
        cluster.store(Pod).subscribe(
            self._pod_changed, lambda _, new: self._pod_changed(new), self._pod_changed, replay=False
        )
        cluster.store(Reservation).subscribe(
            self._reservation_changed,
            lambda _, new: self._reservation_changed(new),
            self._reservation_changed,
            replay=False,
        )

    async def run(self) -> None:
        """Carry out jobs until cancelled; begins with all that there are."""
        limiter = RetryLimiter(self._clock, maximum=LONGEST_BACKOFF)
        self._queue = queue = WorkQueue(NAME, self._clock, limiter)
        try:
            for job in self._jobs:
                self._changed(job)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(reconcile_forever(queue, self._reconcile, workers=self._workers))
                tasks.create_task(self._cleanup.run())
        finally:
            self._queue = None

    def wake(self, job: PodMigrationJob) -> None:
        """Carry out a job that has just passed arbitration, as soon as the store has that version."""
        known = self._jobs.get("", job.metadata.name)
        if self._queue is not None and known is not None and version_of(known) >= version_of(job):
            self._queue.add(job.metadata.name)

    async def _reconcile(self, name: str) -> float | None:
        job = self._jobs.get("", name)
        if job is not None and job.is_pending and not self._may_start(job):
            seconds = self._reconciler.seconds_left(job)
            if seconds is None or seconds > 0:
                return seconds
        obstacle = "" if job is None else self._obstacles.of(job.metadata.uid)
        try:
            again = await self._reconciler.reconcile(name)
        except (ReconcileError, ApiError, ConnectionFailed) as error:
            known = self._jobs.get("", name)
            if job is None or known is None or known.metadata.uid != job.metadata.uid:
                raise
            if isinstance(error, Conflict):  # the job was changed meanwhile, which hinders nothing
                raise ReconcileError(str(error), level=logging.DEBUG) from error
            level = error.level if isinstance(error, ReconcileError) else logging.ERROR
            if not self._obstacles.failed(job.metadata.uid, str(error)):
                level = logging.DEBUG  # it was logged before
            raise ReconcileError(str(error), level=level) from error
        if job is not None and obstacle:
            self._went_on(job, obstacle)
        return again

    def _went_on(self, job: PodMigrationJob, obstacle: str) -> None:
        """Forget why a job's last attempts failed, and log it where that has ended the job."""
        self._obstacles.forget(job.metadata.uid)
        seconds = self._reconciler.seconds_left(job)
        is_over = seconds is not None and seconds <= 0
        if is_over and job.is_unfinished and not job.spec.paused:
            log.warning(
                "PodMigrationJob %s of pod %s ends with its TTL; its last attempt failed: %s",
                job.metadata.name,
                job.pod_key,
                obstacle,
            )

    # --- what wakes jobs -------------------------------------------------------------------------

    def _changed(self, job: PodMigrationJob) -> None:
        if self._queue is None:
            return
        if not job.is_unfinished:
            self._obstacles.forget(job.metadata.uid)
            if self._reconciler.is_own(job):
                self._cleanup.ended(job)
        elif job.is_running or self._may_start(job):
            self._queue.add(job.metadata.name)
        elif (seconds := self._reconciler.seconds_left(job)) is not None:
            self._queue.add_after(job.metadata.name, seconds)

    def _deleted(self, job: PodMigrationJob) -> None:
        self._reconciler.forget(job)
        self._obstacles.forget(job.metadata.uid)
        if self._queue is not None:
            self._cleanup.deleted(job)

    def _pod_changed(self, pod: Pod) -> None:
        for job in self._by_pod.get(pod.metadata.key):
            self._changed(job)

    def _reservation_changed(self, reservation: Reservation) -> None:
        for job in self._by_reservation.get(reservation.metadata.name):
            self._changed(job)


def _pods(job: PodMigrationJob) -> Iterable[str]:
    """Return the keys of the pods for which an unfinished job waits: its own, and its successor."""
    if not job.is_unfinished:
        return ()
    bound = job.status.pod_ref
    return {job.pod_key, f"{bound.namespace}/{bound.name}"} if bound is not None else {job.pod_key}


def _reservations(job: PodMigrationJob) -> Iterable[str]:
    """Return the name of the Reservation for which an unfinished job waits."""
    options = job.spec.reservation_options
    if not job.is_unfinished or options is None or options.reservation_ref is None:
        return ()
    return (options.reservation_ref.name,)
