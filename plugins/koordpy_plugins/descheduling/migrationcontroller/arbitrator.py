"""Decides which waiting PodMigrationJobs may start, at an interval.

A job waits from its creation until it passes all filters, its pod's filters refuse it for good, or its pod is
gone (its execution then says so). A paused job waits, too: it takes no other's place before it can start.
Jobs that have started or ended never wait, so a restart fails no finished job; and a job is read from the
store when its turn comes, so a change or a deletion meanwhile is no conflict. (Koordinator arbitrates a copy
of the first version of every job, and paused jobs like others.) Source: Koordinator,
`pkg/descheduler/controllers/migration/arbitrator`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.pod_migration_job import (
    ANNOTATION_PASSED_ARBITRATION,
    FAILED,
    REASON_FORBIDDEN_MIGRATE_POD,
    PodMigrationJob,
)
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed, NotFound
from koordpy.descheduling.interface import Handle
from koordpy.lib import duration

from .args import MigrationControllerArgs
from .filters import MigrationFilters
from .job_order import Candidate, sort_jobs
from .jobs import MigrationJobs

log = logging.getLogger(__name__)

_AT_ONCE: Final = 256
"""Jobs about which is decided at a time."""


class Verdict(StrEnum):
    """What arbitration decides about a job."""

    PASSED = "passed"
    FAILED = "failed"
    WAITING = "waiting"


class Arbitrator:
    """Follows the jobs of a cluster; `run` arbitrates. `on_passed` is called with each job that passed."""

    def __init__(
        self,
        args: MigrationControllerArgs,
        handle: Handle,
        jobs: MigrationJobs,
        filters: MigrationFilters,
        on_passed: Callable[[PodMigrationJob], None] = lambda _: None,
    ) -> None:
        self._args, self._jobs, self._filters = args, jobs, filters
        self._client, self._events = handle.client, handle.events
        self._on_passed = on_passed
        self._pods = handle.cluster.store(Pod)
        self._owned = self._pods.index(_owners)
        self._by_pod_uid = jobs.store.index(_pod_uids)
        self.waiting: dict[str, str] = {}
        """The names of the waiting jobs by UID."""
        jobs.store.subscribe(self._added, lambda _, job: self._updated(job), self._deleted)

    def _added(self, job: PodMigrationJob) -> None:
        if job.is_pending:
            self.waiting[job.metadata.uid] = job.metadata.name

    def _updated(self, job: PodMigrationJob) -> None:
        if not job.is_pending:
            self._deleted(job)

    def _deleted(self, job: PodMigrationJob) -> None:
        self.waiting.pop(job.metadata.uid, None)

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Arbitrate at the interval, counted from the end of a pass, until cancelled."""
        interval = self._args.arbitration_args.interval / duration.SECOND
        while True:
            await self.arbitrate()
            await sleep(max(interval, 0.01))

    def candidates(self) -> list[Candidate]:
        """Return the waiting jobs with their pods, in order; forget those that are gone."""
        found: list[Candidate] = []
        for uid, name in sorted(self.waiting.items(), key=lambda item: item[1]):
            job = self._jobs.store.get("", name)
            if job is None or job.metadata.uid != uid:
                del self.waiting[uid]
                continue
            if job.spec.paused:
                continue
            found.append((job, None if job.spec.pod_ref is None else self._pods.by_key(job.pod_key)))
        return sort_jobs(found, self._migrating)

    def _migrating(self, owner_uid: str) -> int:
        """How many jobs of an owner's pods are running or have passed arbitration, even ended ones."""
        return sum(
            job.is_running or job.metadata.annotations.get(ANNOTATION_PASSED_ARBITRATION) == "true"
            for pod in self._owned.get(owner_uid)
            for job in self._by_pod_uid.get(pod.metadata.uid)
        )

    async def arbitrate(self) -> list[tuple[str, Verdict]]:
        """Decide about every waiting job, in order; return the decisions that took effect, by name."""
        self._jobs.forget_unseen()
        decided: list[tuple[str, Verdict]] = []
        for number, (job, pod) in enumerate(self.candidates(), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # others have their turn
            verdict = self._verdict(job, pod)
            if verdict is Verdict.WAITING or job.metadata.uid not in self.waiting:
                continue
            if await self._written(job, pod, verdict):
                decided.append((job.metadata.name, verdict))
        return decided

    def _verdict(self, job: PodMigrationJob, pod: Pod | None) -> Verdict:
        if pod is None:
            return Verdict.PASSED
        reason = self._filters.non_retryable(pod)
        if reason is not None:
            log.warning(
                "PodMigrationJob %s fails: pod %s is never migrated: %s",
                job.metadata.name,
                pod.metadata.key,
                reason,
            )
            return Verdict.FAILED
        reason = self._filters.retryable(pod, arbitrating=True)
        if reason is not None:
            log.debug("the job of pod %s waits: %s", pod.metadata.key, reason)
            return Verdict.WAITING
        return Verdict.PASSED

    async def _written(self, job: PodMigrationJob, pod: Pod | None, verdict: Verdict) -> bool:
        """Write a decision; return whether that succeeded. Otherwise the job waits on, if it exists."""
        try:
            if verdict is Verdict.PASSED:
                await self._pass(job)
            else:
                assert pod is not None
                await self._fail(job, pod)
        except NotFound:
            self._deleted(job)
            return False
        except Conflict:
            return False  # the job has changed; the next pass reads it again
        except (ApiError, ConnectionFailed) as error:
            log.warning("PodMigrationJob %s cannot be arbitrated now: %s", job.metadata.name, error)
            return False
        self._deleted(job)
        return True

    async def _pass(self, job: PodMigrationJob) -> None:
        meta = job.metadata
        if self._client is None:
            raise RuntimeError("jobs cannot be arbitrated: there is no API server")
        patch = {
            "metadata": {
                "annotations": {ANNOTATION_PASSED_ARBITRATION: "true"},
                "resourceVersion": meta.resource_version,
            }
        }
        passed = await self._client.patch(PodMigrationJob, "", meta.name, patch)
        self._jobs.mark_passed(passed)
        self._on_passed(passed)

    async def _fail(self, job: PodMigrationJob, pod: Pod) -> None:
        meta = job.metadata
        if self._client is None:
            raise RuntimeError("jobs cannot be arbitrated: there is no API server")
        message = (
            f'Pod "{pod.metadata.key}" is forbidden to migrate because it does not meet the requirements'
        )
        status = {"phase": FAILED, "reason": REASON_FORBIDDEN_MIGRATE_POD, "message": message}
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        failed = await self._client.patch_status(PodMigrationJob, "", meta.name, patch)
        self._jobs.mark_ended(failed)
        if self._events is not None:
            self._events.event(job, "Warning", REASON_FORBIDDEN_MIGRATE_POD, message, action="Migrating")


def _owners(pod: Pod) -> set[str]:
    return {owner.uid for owner in pod.metadata.owner_references}


def _pod_uids(job: PodMigrationJob) -> tuple[str, ...]:
    return (job.pod_uid,) if job.pod_uid else ()
