"""CronJobs: a Job at every time of a schedule. Source: Kubernetes, `pkg/controller/cronjob`."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from koordpy.api.meta import format_time, parse_time
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.cluster.events import NORMAL, WARNING

from . import cron_schedule
from .controller import Context, Controller
from .cron_schedule import Schedule, ScheduleError
from .dependents import Dependents
from .job_progress import is_finished
from .objects import CronJob, Job, created_at, owner_reference

Document = dict[str, Any]

_JOB = resource_of(Job)
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MOST_MISSED = 100
_LONGEST_DEADLINE = 1e9
_LATE = 0.1
"""Seconds after its time at which a Job is created, so that it is surely due."""


class CronJobController(Controller):
    """Creates Jobs when they are due, deletes old ones, and maintains the status of CronJobs."""

    name = "cronjob-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._cron_jobs = context.cluster.store(CronJob)
        self._jobs = Dependents(
            context.cluster.store(Job), self._cron_jobs, self.queue, context.client, adopts=False
        )
        self._cron_jobs.subscribe(self._changed, lambda _, new: self._changed(new), None)

    def _changed(self, cron_job: CronJob) -> None:
        self.queue.add(cron_job.metadata.key)

    async def reconcile(self, key: str) -> float | None:
        """Create the Job that is due, and write the status; return the seconds until the next one."""
        cron_job = self._cron_jobs.by_key(key)
        if cron_job is None:
            return None
        jobs = sorted(self._jobs.of(cron_job), key=created_at)
        await self._clean_up(cron_job, jobs)
        started = {item.get("uid") for item in cron_job.status.get("active") or ()}
        active = [job for job in jobs if not is_finished(job) and _is_scheduled(job, started)]
        last = cron_job.status.get("lastScheduleTime")
        wait: float | None = None
        if not cron_job.spec.get("suspend") and cron_job.metadata.deletion_timestamp is None:
            try:
                schedule = cron_schedule.parse(str(cron_job.spec.get("schedule", "")))
                zone = _zone(cron_job)
            except (ScheduleError, ZoneInfoNotFoundError, ValueError) as error:
                told = f"invalid schedule: {cron_job.spec.get('schedule')} : {error}"
                self._events.event(cron_job, WARNING, "UnparseableSchedule", told)
                return None
            now = self._clock.now()
            due = self._due(cron_job, schedule, zone, now)
            if due is not None and (running := await self._start(cron_job, active, due)) is not None:
                active, last = running, format_time(due)
            following = schedule.next(now, zone)
            wait = None if following is None else (following - now).total_seconds() + _LATE
        await self._sync_status(cron_job, jobs, active, last)
        return wait

    def _due(self, cron_job: CronJob, schedule: Schedule, zone: tzinfo, now: datetime) -> datetime | None:
        """Return the latest time for which no Job was created yet."""
        since = cron_job.status.get("lastScheduleTime") or cron_job.metadata.creation_timestamp
        earliest = parse_time(since) if since else now
        deadline = cron_job.spec.get("startingDeadlineSeconds")
        if deadline is not None:
            earliest = max(earliest, now - timedelta(seconds=min(float(deadline), _LONGEST_DEADLINE)))
        found, missed = None, 0
        following = schedule.next(earliest, zone)
        while following is not None and following <= now:
            found, missed = following, missed + 1
            if missed > _MOST_MISSED:  # clocks may have jumped: only the last hours count
                self._events.event(cron_job, WARNING, "TooManyMissedTimes", "too many missed start times")
                earliest = now - timedelta(hours=1)
                following, missed = schedule.next(max(earliest, following), zone), 0
                continue
            following = schedule.next(following, zone)
        return found

    async def _start(self, cron_job: CronJob, active: list[Job], due: datetime) -> list[Job] | None:
        """Create the Job of a time, as the concurrency policy allows; return the active ones then."""
        policy = cron_job.spec.get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and active:
            told = f"Not starting job because prior execution is running and concurrency policy is {policy}"
            self._events.event(cron_job, NORMAL, "JobAlreadyActive", told)
            return None
        kept = list(active)
        if policy == "Replace":
            for job in active:
                await self._delete(cron_job, job, "SuccessfulDelete", f"Deleted job {job.metadata.name}")
            kept = []
        template = cron_job.spec.get("jobTemplate") or {}
        given = template.get("metadata") or {}
        name = f"{cron_job.metadata.name[:52]}-{int(due.timestamp()) // 60}"
        document = {
            "apiVersion": _JOB.api_version,
            "kind": _JOB.kind,
            "metadata": {
                "name": name,
                "namespace": cron_job.metadata.namespace,
                "labels": dict(given.get("labels") or {}),
                "annotations": {**(given.get("annotations") or {}), _SCHEDULED: format_time(due)},
                "ownerReferences": [owner_reference(cron_job)],
            },
            "spec": template.get("spec") or {},
        }
        try:
            made = await self._client.create_raw(_JOB, cron_job.metadata.namespace, document)
        except AlreadyExists:  # by an earlier attempt, whose status was not written
            return kept
        self._events.event(cron_job, NORMAL, "SuccessfulCreate", f"Created job {name}")
        return [*kept, decode(Job, made)]

    async def _clean_up(self, cron_job: CronJob, jobs: list[Job]) -> None:
        """Delete the oldest finished Jobs beyond the history limits."""
        for end, field, default in (
            ("Complete", "successfulJobsHistoryLimit", 3),
            ("Failed", "failedJobsHistoryLimit", 1),
        ):
            ended = [
                job for job in jobs if is_finished(job) == end and job.metadata.deletion_timestamp is None
            ]
            limit = int(cron_job.spec.get(field, default))
            for job in ended[: max(len(ended) - limit, 0)]:
                await self._delete(cron_job, job, "SuccessfulDelete", f"Deleted job {job.metadata.name}")

    async def _delete(self, cron_job: CronJob, job: Job, reason: str, told: str) -> None:
        meta = job.metadata
        with suppress(NotFound):
            await self._client.delete(
                Job, meta.namespace, meta.name, uid=meta.uid, propagation_policy="Background"
            )
            self._events.event(cron_job, NORMAL, reason, told)

    async def _sync_status(
        self, cron_job: CronJob, jobs: list[Job], active: list[Job], last: str | None
    ) -> None:
        before = {item.get("uid") for item in cron_job.status.get("active") or ()}
        for job in jobs:
            end = is_finished(job)
            if end and job.metadata.uid in before:
                told = f"Saw completed job: {job.metadata.name}, condition: {end}"
                self._events.event(cron_job, NORMAL, "SawCompletedJob", told)
        times = [
            str(job.status.get("completionTime") or "") for job in jobs if is_finished(job) == "Complete"
        ]
        success = max([*times, str(cron_job.status.get("lastSuccessfulTime") or "")])
        await self._write_status(
            cron_job,
            {
                "active": [_reference(job) for job in active] or None,
                "lastScheduleTime": last,
                "lastSuccessfulTime": success or None,
            },
        )


def _reference(job: Job) -> Document:
    meta = job.metadata
    return {
        "apiVersion": _JOB.api_version,
        "kind": _JOB.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }


def _is_scheduled(job: Job, started: set[str]) -> bool:
    """Return whether a Job was created by the schedule, not by hand."""
    return job.metadata.uid in started or _SCHEDULED in job.metadata.annotations


def _zone(cron_job: CronJob) -> tzinfo:
    name = cron_job.spec.get("timeZone")
    return ZoneInfo(name) if name else UTC
