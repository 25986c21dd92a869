"""What migrations leave behind: Reservations, EvictionRequests, and old jobs.

Koordinator deletes the Reservation of a job that timed out, was deleted or is scavenged; others stay until
they expire. Here the Reservation that a job created goes as soon as the job has ended, however it ended,
since it would hold resources without use, and so do those that a killed process left behind. Source of the
scavenger: Koordinator, `doScavenge` of `pkg/descheduler/controllers/migration/controller.go`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from koordpy.api.meta import KubeObject, parse_time
from koordpy.api.pod_migration_job import CREATED_BY, LABEL_CREATED_BY, PodMigrationJob
from koordpy.api.reservation import Reservation
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.controllers.queue import RetryLimiter, WorkQueue
from koordpy.controllers.reconcile import ReconcileError, reconcile_forever
from koordpy.lib import duration, supervise
from koordpy.lib.clock import Clock

from .eviction_requests import EvictionRequests
from .eviction_step import ANNOTATION_EVICTING
from .reconciler import Reconciler, time_to_live

log = logging.getLogger(__name__)

INTERVAL = 60.0
"""Seconds between two passes of the scavenger."""

AFTER_TTL, WITHOUT_TTL = 5 * duration.MINUTE, 30 * duration.MINUTE
"""The age at which a job is deleted: its TTL and so much more, or without a TTL this."""

ORPHANED_AFTER = 60.0
"""The age in seconds of a Reservation of no job before it counts as left behind."""


class Cleanup:
    """Deletes Reservations and EvictionRequests of jobs that are over, and old jobs.

    `requests` is None where there are no EvictionRequests.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        clock: Clock,
        reconciler: Reconciler,
        requests: EvictionRequests | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._jobs, self._clock, self._client = cluster.store(PodMigrationJob), clock, client
        self._reconciler, self._reservations = reconciler, reconciler.reservations
        self._requests, self._sleep = requests, sleep
        self._over: dict[str, tuple[PodMigrationJob, bool]] = {}
        """Jobs that are over, by UID, and whether they were deleted."""
        self._queue: WorkQueue | None = None

    def ended(self, job: PodMigrationJob) -> None:
        """Clean up after a job that has ended."""
        self._over.setdefault(job.metadata.uid, (job, False))
        self._wake(job)

    def deleted(self, job: PodMigrationJob) -> None:
        """Clean up after a job that was deleted."""
        self._over[job.metadata.uid] = job, True
        self._wake(job)

    async def run(self) -> None:
        """Clean up until cancelled."""
        limiter = RetryLimiter(self._clock, maximum=INTERVAL)
        self._queue = queue = WorkQueue("podmigrationjobs_cleanup", self._clock, limiter)
        try:
            for uid in self._over:
                queue.add(uid)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(reconcile_forever(queue, self.clean))
                tasks.create_task(supervise.forever("MigrationController scavenger", self._scavenge_forever))
        finally:
            self._queue = None
            self._over.clear()

    def _wake(self, job: PodMigrationJob) -> None:
        if self._queue is not None:
            self._queue.add(job.metadata.uid)

    # --- one job ---------------------------------------------------------------------------------

    async def clean(self, uid: str) -> None:
        """Delete what belongs to the job of that UID, which is over. Raises ApiError, ConnectionFailed."""
        found = self._over.get(uid)
        if found is None:
            return
        job, is_deleted = found
        name = _reservation_name(job)
        reservation = self._reservations.store.get("", name)
        if reservation is not None and (
            (is_deleted and _refers_to(job, reservation)) or _is_made_for(job, reservation)
        ):
            await self._reservations.delete(name)
        if self._requests is not None and ANNOTATION_EVICTING in job.metadata.annotations:
            await self._requests.withdraw(job)
        self._over.pop(uid, None)

    # --- the scavenger ---------------------------------------------------------------------------

    async def _scavenge_forever(self) -> None:
        await self.scavenge()
        while True:
            await self._sleep(INTERVAL)
            await self.scavenge()
            await self.delete_orphans()

    async def scavenge(self) -> None:
        """Delete all old jobs, of whichever controller, and their Reservations.

        A Reservation that cannot be deleted ends the pass.
        """
        for job in list(self._jobs):
            if self._age(job) < _lifetime(job):
                continue
            name = job.metadata.name
            try:
                options = job.spec.reservation_options
                if options is not None and options.reservation_ref is not None:
                    await self._reservations.delete(options.reservation_ref.name)
            except (ApiError, ConnectionFailed) as error:
                log.error("the Reservation of PodMigrationJob %s cannot be deleted: %s", name, error)
                return
            try:
                await self._client.delete(PodMigrationJob, "", name, uid=job.metadata.uid)
                log.info("deleted PodMigrationJob %s, which is old", name)
            except NotFound:
                continue
            except (ApiError, ConnectionFailed) as error:
                log.error("PodMigrationJob %s, which is old, cannot be deleted: %s", name, error)

    async def delete_orphans(self) -> None:
        """Delete Reservations of migrations whose job is gone, or has ended without them being noticed."""
        unfinished = {_reservation_name(job) for job in self._jobs if self._keeps(job)}
        for reservation in list(self._reservations.store):
            metadata = reservation.metadata
            if metadata.labels.get(LABEL_CREATED_BY) != CREATED_BY or metadata.name in unfinished:
                continue
            if self._age(reservation) < ORPHANED_AFTER * duration.SECOND:
                continue
            try:
                await self._client.delete(Reservation, "", metadata.name, uid=metadata.uid)
                log.info("deleted Reservation %s, whose migration is over", metadata.name)
            except NotFound:
                continue
            except (ApiError, ConnectionFailed) as error:
                log.error("Reservation %s cannot be deleted: %s", metadata.name, error)

    def _keeps(self, job: PodMigrationJob) -> bool:
        """Return whether a job still needs its Reservation, or belongs to another controller."""
        return job.is_unfinished or not self._reconciler.is_own(job)

    def _age(self, obj: KubeObject) -> float:
        """Return an object's age in nanoseconds; 0 if it does not say when it was created."""
        created = obj.metadata.creation_timestamp
        if created is None:
            return 0
        return (self._clock.now() - parse_time(created)).total_seconds() * duration.SECOND


def _lifetime(job: PodMigrationJob) -> int:
    try:
        ttl = time_to_live(job)
    except ReconcileError:
        return WITHOUT_TTL
    return ttl + AFTER_TTL if ttl > 0 else WITHOUT_TTL


def _reservation_name(job: PodMigrationJob) -> str:
    """Return the name of a job's Reservation: the referenced one, else the one that it would create."""
    options = job.spec.reservation_options
    reference = options.reservation_ref if options is not None else None
    return job.metadata.uid if reference is None else reference.name


def _refers_to(job: PodMigrationJob, reservation: Reservation) -> bool:
    options = job.spec.reservation_options
    reference = options.reservation_ref if options is not None else None
    return reference is not None and reference.uid in ("", reservation.metadata.uid)


def _is_made_for(job: PodMigrationJob, reservation: Reservation) -> bool:
    """Return whether a migration created a Reservation of a job's, not a user."""
    if reservation.metadata.labels.get(LABEL_CREATED_BY) != CREATED_BY:
        return False
    return reservation.metadata.name == job.metadata.uid or _refers_to(job, reservation)
