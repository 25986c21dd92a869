"""The life of a PodMigrationJob, one reconciliation at a time.

A reconciliation takes a job as far as it gets without waiting: what was done is in the job's conditions, so
that any process can go on from there. Source: Koordinator,
`pkg/descheduler/controllers/migration/controller.go`; the rules are in its `doMigrate`.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from koordpy.api import json_merge
from koordpy.api import pod_migration_job as pmj
from koordpy.api.core import Pod
from koordpy.api.meta import parse_time
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.controllers.reconcile import ReconcileError
from koordpy.lib import duration
from koordpy.lib.clock import Clock

from . import reservations
from .eviction_step import AGAIN, EvictionStep, Evictor
from .limiter_protocol import Limiter
from .progress import FALSE, TRUE, EventRecorder, Progress, quoted
from .reservations import Reservations

log = logging.getLogger(__name__)

ANNOTATION_EVICT: Final = "descheduler.alpha.kubernetes.io/evict"

_POD = resource_of(Pod)


class Reconciler:
    """Carries out jobs.

    `identity` is the one of jobs that this controller created: jobs that another controller created are left
    alone. `default_mode` and `default_delete_options` are those of jobs that set none.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        events: EventRecorder | None,
        clock: Clock,
        *,
        evictor: Evictor,
        limiter: Limiter,
        identity: str,
        default_mode: str = pmj.RESERVATION_FIRST,
        default_delete_options: Mapping[str, Any] | None = None,
        keep_claims: bool = True,
    ) -> None:
        self._jobs, self._pods = cluster.store(PodMigrationJob), cluster.store(Pod)
        self._client, self._events, self._clock = client, events, clock
        self._limiter, self._identity = limiter, identity
        self._default_mode, self._keep_claims = default_mode, keep_claims
        self.reservations = Reservations(cluster, client, clock)
        self._eviction = EvictionStep(
            cluster, client, self.reservations, evictor, limiter, default_delete_options
        )
        self._versions: dict[str, tuple[str, int]] = {}

    def forget(self, job: PodMigrationJob) -> None:
        """Forget a deleted job."""
        self._versions.pop(job.metadata.name, None)
        self._eviction.forget(job.metadata.uid)

    def is_own(self, job: PodMigrationJob) -> bool:
        """Return whether a job is this controller's to carry out: its own, or one that a user created."""
        created_by = job.metadata.annotations.get(pmj.ANNOTATION_JOB_CREATED_BY)
        return created_by is None or created_by == self._identity

    async def reconcile(self, name: str) -> float | None:
        """Carry out a job as far as possible; return the seconds after which to try again, None for never.

        Raises ReconcileError, ApiError or ConnectionFailed if it has to be tried again with a backoff.
        """
        job = self._jobs.get("", name)
        if job is None:
            return None
        if self._is_stale(job):
            return AGAIN
        if not self.is_own(job):
            return None
        progress = Progress(job, self._client, self._events, self._clock)
        try:
            return await self._migrate(progress)
        finally:
            self._remember(progress.job)

    # --- stale reads -----------------------------------------------------------------------------

    def _is_stale(self, job: PodMigrationJob) -> bool:
        """Return whether the store does not have this controller's last write of a job yet."""
        uid, version = self._versions.get(job.metadata.name, ("", 0))
        return uid == job.metadata.uid and version_of(job) < version

    def _remember(self, job: PodMigrationJob) -> None:
        if job.metadata.name in self._jobs:
            self._versions[job.metadata.name] = (job.metadata.uid, version_of(job))

    # --- the steps -------------------------------------------------------------------------------

    async def _migrate(self, progress: Progress) -> float | None:
        job = progress.job
        if job.spec.paused or not job.is_unfinished:
            return None
        if await self._timed_out(progress):
            return None
        if job.is_pending:
            await self._start(progress)
        if self._is_limited(progress):
            return AGAIN
        if (progress.job.spec.mode or self._default_mode) == pmj.EVICT_DIRECTLY:
            return await self._evict_directly(progress)
        name = progress.reservation_name
        if name is None:
            await self._reserve(progress)
            return None
        try:
            reservation = await self.reservations.get(name)
        except NotFound as error:  # as in Koordinator the job waits for it, until its TTL
            raise ReconcileError(error.message, level=logging.WARNING) from error
        await self.reservations.ensure_order(reservation)
        await progress.update_condition(pmj.CONDITION_RESERVATION_CREATED, TRUE)
        try:
            reservation = await self.reservations.get(name)
        except NotFound:
            await self._eviction.fail_for_missing_reservation(progress)
            return None
        return await self._follow(progress, reservation)

    def seconds_left(self, job: PodMigrationJob) -> float | None:
        """Return the seconds until a job ends by its TTL, at most 0 if that is due; None without a TTL.

        A TTL that is no duration ends the job at once.
        """
        try:
            ttl, created = time_to_live(job), job.metadata.creation_timestamp
        except ReconcileError:
            return 0.0
        if not ttl or created is None:
            return None
        return ttl / duration.SECOND - (self._clock.now() - parse_time(created)).total_seconds()

    async def _timed_out(self, progress: Progress) -> bool:
        try:
            time_to_live(progress.job)
        except ReconcileError as error:
            await progress.fail(pmj.REASON_INVALID_TTL, f"Abort job caused by invalid TTL: {error}")
            return True
        seconds = self.seconds_left(progress.job)
        if seconds is None or seconds > 0:
            return False
        if progress.reservation_name is not None:
            await self.reservations.delete(progress.reservation_name)
        await progress.fail(pmj.REASON_TIMEOUT, "Abort job caused by timeout")
        return True

    async def _start(self, progress: Progress) -> None:
        reference = progress.pod_ref
        if not reference.namespace or not reference.name:
            await progress.fail(pmj.REASON_INVALID_POD_REF, "Abort job caused by invalid PodRef")
            raise ReconcileError("abort job by invalid podRef", level=logging.WARNING)
        pod = self._pods.get(reference.namespace, reference.name)
        if pod is None:
            await self._eviction.fail_for_missing_pod(progress)
            raise ReconcileError(_missing(reference.name), level=logging.INFO)
        if reference.uid != pod.metadata.uid:
            await progress.write({"spec": {"podRef": {"uid": pod.metadata.uid}}})
        progress.job.status.phase = pmj.RUNNING
        await progress.write_status()

    def _is_limited(self, progress: Progress) -> bool:
        if ANNOTATION_EVICT in progress.job.metadata.annotations:
            return False
        pod = self._pod(progress)
        return pod is not None and self._limiter.exceeded(pod)

    def _pod(self, progress: Progress) -> Pod | None:
        reference = progress.pod_ref
        if not reference.namespace or not reference.name:
            return None
        return self._pods.get(reference.namespace, reference.name)

    async def _evict_directly(self, progress: Progress) -> float | None:
        step = await self._eviction.run(progress)
        if not step.complete:
            return step.again
        state = progress.job.status
        state.phase, state.status, state.reason = pmj.SUCCEEDED, pmj.COMPLETE, ""
        state.message = f"Pod {progress.pod} has been evicted"
        await progress.write_status()
        return None

    async def _reserve(self, progress: Progress) -> None:
        """Create the Reservation; the job's own update brings the next reconciliation."""
        reference, job = progress.pod_ref, progress.job
        try:
            if not reference.namespace or not reference.name:
                raise ReconcileError(_missing(reference.name), level=logging.INFO)
            pod = await self._client.get_raw(_POD, reference.namespace, reference.name)
        except (NotFound, ReconcileError) as error:
            await self._eviction.fail_for_missing_pod(progress)
            message = error.message if isinstance(error, NotFound) else str(error)
            raise ReconcileError(message, level=logging.INFO) from error
        document = await self._client.get_raw(resource_of(PodMigrationJob), "", job.metadata.name)
        ttl = time_to_live(job)
        options = reservations.options_for(
            document,
            pod,
            duration.format(ttl) if ttl > 0 else None,
            self._clock.now(),
            keep_claims=self._keep_claims,
        )
        try:
            created = await self.reservations.create(options["template"])
        except (ApiError, ConnectionFailed) as error:
            cause = error.message if isinstance(error, ApiError) else str(error)
            message = f"Failed to create Reservation caused by {cause}"
            reason = pmj.REASON_FAILED_CREATE_RESERVATION
            await progress.update_condition(pmj.CONDITION_RESERVATION_CREATED, FALSE, reason, message)
            progress.warn(reason, progress.job.status.message)
            raise
        resource, metadata = resource_of(Reservation), created["metadata"]
        options["reservationRef"] = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            **{key: metadata[key] for key in ("name", "uid") if metadata.get(key)},
        }
        await progress.write(_spec_patch(document, options))
        name = quoted(metadata["name"])
        progress.note(pmj.CONDITION_RESERVATION_CREATED, f"Successfully create Reservation {name}")

    # --- from the Reservation on -----------------------------------------------------------------

    async def _follow(self, progress: Progress, reservation: Reservation) -> float | None:
        await self._take_over_unschedulable(progress, reservation)
        if reservations.is_pending(reservation):
            return AGAIN
        if reservations.is_expired(reservation):
            await progress.fail(pmj.REASON_RESERVATION_EXPIRED, "Reservation expired", event=False)
            return None
        if not reservations.is_scheduled(reservation):
            cause = reservations.unschedulable(reservation)
            message = cause.message if cause is not None else ""
            await progress.fail(pmj.REASON_UNSCHEDULABLE, message, event=False)
            return None
        await self._take_over_node(progress, reservation)
        if reservations.is_for_pending_pod(reservation):
            return await self._await_pod_scheduled(progress)
        step = await self._eviction.run(progress)
        if not step.complete:
            return step.again
        return await self._await_successor(progress, reservation)

    async def _take_over_unschedulable(self, progress: Progress, reservation: Reservation) -> None:
        known = progress.job.condition(pmj.CONDITION_RESERVATION_SCHEDULED)
        cause = reservations.unschedulable(reservation)
        if cause is None or (known is not None and known.status != FALSE):
            return
        await progress.update_condition(
            pmj.CONDITION_RESERVATION_SCHEDULED, FALSE, pmj.REASON_UNSCHEDULABLE, cause.message
        )
        progress.warn(pmj.REASON_UNSCHEDULABLE, cause.message)

    async def _take_over_node(self, progress: Progress, reservation: Reservation) -> None:
        known = progress.job.condition(pmj.CONDITION_RESERVATION_SCHEDULED)
        if progress.job.status.node_name or (known is not None and known.status == TRUE):
            return
        name, pod = quoted(reservation.metadata.name), self._pod(progress)
        if pod is not None and pod.spec.node_name == reservation.node_name:
            message = f"Scheduler assignes the Reservation {name} on the same node as the Pod"
            await progress.fail(pmj.REASON_FORBIDDEN_MIGRATE_POD, message)
            raise ReconcileError(
                "abort job since reservation assigned on same node as Pod", level=logging.WARNING
            )
        progress.job.status.node_name = reservation.node_name
        await progress.update_condition(pmj.CONDITION_RESERVATION_SCHEDULED, TRUE)
        progress.note(
            pmj.CONDITION_RESERVATION_SCHEDULED,
            f"Assigned Reservation {name} to node {quoted(reservation.node_name)}",
        )

    async def _await_pod_scheduled(self, progress: Progress) -> float | None:
        """Wait until a pod that waited for a node has one; it is never evicted."""
        pod = self._pod(progress)
        if pod is None:
            await self._eviction.fail_for_missing_pod(progress)
            return None
        scheduled = next((item for item in pod.status.conditions if item.type == "PodScheduled"), None)
        if scheduled is None or scheduled.status == FALSE:
            if await self._eviction.fail_if_bound_by_another(progress, pod):
                return None
            await progress.update_condition(
                pmj.CONDITION_POD_SCHEDULED,
                FALSE,
                pmj.REASON_UNSCHEDULABLE,
                scheduled.message if scheduled is not None else "",
            )
            return AGAIN
        state = progress.job.status
        state.phase, state.status, state.reason = pmj.SUCCEEDED, pmj.COMPLETE, ""
        state.message = f"Assign Pod {progress.pod} to node {quoted(pod.spec.node_name)}"
        if progress.set_condition(pmj.CONDITION_POD_SCHEDULED, TRUE):
            await progress.write_status()
            progress.note(pmj.COMPLETE, progress.job.status.message)
        return None

    async def _await_successor(self, progress: Progress, reservation: Reservation) -> float | None:
        """Wait until a pod uses the Reservation and is ready."""
        bound = progress.job.condition(pmj.CONDITION_POD_BOUND_RESERVATION)
        owners = reservation.status.current_owners
        if not owners:
            if bound is None or bound.status != TRUE:
                reason = pmj.REASON_WAIT_FOR_POD_BIND_RESERVATION
                await progress.update_condition(pmj.CONDITION_POD_BOUND_RESERVATION, FALSE, reason)
                progress.note(reason, "Waiting for Pod bind Reservation")
                return AGAIN
            raise ReconcileError(f"no pod uses Reservation {reservation.metadata.name} any more")
        owner = owners[0]
        key = f"{owner.namespace}/{owner.name}"
        changed = progress.set_condition(pmj.CONDITION_RESERVATION_BOUND, TRUE)
        if changed or progress.job.status.pod_ref is None:
            progress.job.status.pod_ref = owner
            await progress.write_status()
            progress.note(pmj.CONDITION_POD_BOUND_RESERVATION, f"Reservation bound by pod {quoted(key)}")
        if not await self._is_ready(progress, key):
            return AGAIN
        progress.note(pmj.CONDITION_BOUND_POD_READY, f"Bind pod {quoted(key)} is ready")
        await progress.update_condition(pmj.CONDITION_BOUND_POD_READY, TRUE)
        state = progress.job.status
        state.phase, state.status, state.reason = pmj.SUCCEEDED, pmj.COMPLETE, ""
        state.pod_ref = owner
        state.message = f"Bind Pod {quoted(key)} in Reservation {quoted(reservation.metadata.name)}"
        progress.set_condition(pmj.CONDITION_POD_BOUND_RESERVATION, TRUE, message=state.message)
        await progress.write_status()
        progress.note(pmj.COMPLETE, progress.job.status.message)
        return None

    async def _is_ready(self, progress: Progress, key: str) -> bool:
        """Return whether the pod that uses the Reservation is ready; one that is gone counts as ready."""
        known = progress.job.condition(pmj.CONDITION_BOUND_POD_READY)
        if known is not None and known.status == TRUE:
            return True
        pod = self._pods.by_key(key)
        if pod is None or any(item.type == "Ready" and item.status == TRUE for item in pod.status.conditions):
            return True
        reason = pmj.REASON_WAIT_FOR_BOUND_POD_READY
        await progress.update_condition(pmj.CONDITION_BOUND_POD_READY, FALSE, reason)
        progress.note(reason, f"Waiting for Bound Pod {key} Ready")
        return False


def time_to_live(job: PodMigrationJob) -> int:
    """Return a job's TTL in nanoseconds; 0 for none. Raises ReconcileError if it is not a duration."""
    try:
        return duration.parse(job.spec.ttl) if job.spec.ttl is not None else 0
    except ValueError as error:
        raise ReconcileError(f"spec.ttl: {error}") from None


def _missing(pod: str) -> str:
    return f"{_POD.plural} {quoted(pod)} not found"


def _spec_patch(document: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch that gives a job other reservation options."""
    before = (document.get("spec") or {}).get("reservationOptions") or {}
    return {"spec": {"reservationOptions": json_merge.diff(before, options)}}


def version_of(job: PodMigrationJob) -> int:
    """Return a job's resource version as a number; 0 if it is none."""
    text = job.metadata.resource_version
    return int(text) if text.isdecimal() else 0
