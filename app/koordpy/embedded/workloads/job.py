"""Jobs: pods until enough of them have succeeded. Source: Kubernetes, `pkg/controller/job`.

Every pod has a finalizer, so that none is gone before it is counted: first its UID is written into the
status, then the finalizer is removed, then the count replaces the UID. So nothing is counted twice or lost,
whenever this process ends.
"""

from contextlib import suppress
from datetime import datetime
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.meta import parse_time
from koordpy.api.scheme import resource_of
from koordpy.cluster.errors import NotFound
from koordpy.cluster.events import NORMAL, WARNING

from . import job_progress as counting
from .controller import Context, Controller, condition, with_condition
from .dependents import Dependents
from .expectations import Expectations
from .job_progress import FINALIZER, INDEX, Progress
from .objects import Job, available_in, created_at
from .pod_control import BURST, PodControl, in_batches, pod_of
from .template_hash import suffix

Document = dict[str, Any]

_POD = resource_of(Pod)
_JOB = resource_of(Job)
_MOST_UNCOUNTED = 500
_ENDS = ("Complete", "Failed")


class JobController(Controller):
    """Creates the pods of Jobs, counts how they end, and maintains the status of Jobs."""

    name = "job-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._jobs = context.cluster.store(Job)
        self._expectations = Expectations(context.clock)
        self._written: dict[str, tuple[str, str, Document]] = {}
        """UID, resource version and status of Jobs as last written, until the watch shows that."""
        self._pods = Dependents(
            context.cluster.store(Pod), self._jobs, self.queue, context.client, self._expectations
        )
        self._control = PodControl(context.client, self._expectations, self._events, context.rng)
        self._jobs.subscribe(self._changed, lambda _, new: self._changed(new), self._gone)

    def _changed(self, job: Job) -> None:
        self.queue.add(job.metadata.key)

    def _gone(self, job: Job) -> None:
        self._expectations.forget(job.metadata.key)
        self._written.pop(job.metadata.key, None)
        self.queue.add(job.metadata.key)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step of a Job, and write its status."""
        job = self._jobs.by_key(key)
        if job is None:
            await self._release_orphans(key)
            return None
        written = self._written.get(key)
        if written is not None and written[0] == job.metadata.uid:
            if int(job.metadata.resource_version) < int(written[1]):
                return None  # the watch will show what was counted
            del self._written[key]
        pods = await self._pods.claim(job)
        if finished := counting.is_finished(job):
            await self._remove_finalizers([pod for pod in pods if FINALIZER in pod.metadata.finalizers])
            return await self._expire(job, finished)
        again = self._expectations.pending(key)
        if again == 0.0:
            await self._context.catch_up(Pod)
            self._expectations.forget(key)
            return 0.0
        return await self._sync(job, pods, again)

    async def _sync(self, job: Job, pods: list[Pod], pending: float | None) -> float | None:
        progress = counting.progress_of(job, pods)
        now = self._clock.now()
        suspended = bool(job.spec.get("suspend"))
        conditions = list(job.status.get("conditions") or [])
        start = job.status.get("startTime")
        if not start and not suspended:
            await self._put(job, {"startTime": self._now()})
            return None
        seconds = None if not start else (now - parse_time(start)).total_seconds()
        failure = counting.failure_of(job, progress, seconds)
        done = counting.is_complete(job, progress)
        waits = [] if pending is None else [pending]
        if job.metadata.deletion_timestamp is None and pending is None:
            if failure is not None or done:
                await self._control.delete(job, progress.active)
            elif suspended:
                if progress.active:
                    await self._control.delete(job, progress.active)
                    self._events.event(job, NORMAL, "Suspended", "Job suspended")
            elif (wait := await self._manage(job, progress, pods)) is not None:
                waits.append(wait)
        conditions, start = self._suspension(job, conditions, start, suspended)
        over = bool(failure or done) and not progress.active
        conditions = self._ended(job, conditions, failure, done, over)
        await self._count(job, pods, progress, conditions, start, over)
        if seconds is not None and (deadline := job.spec.get("activeDeadlineSeconds")) is not None:
            waits.append(max(float(deadline) - seconds, 0.05))
        return min(waits) if waits else None

    # --- pods ------------------------------------------------------------------------------------

    async def _manage(self, job: Job, progress: Progress, pods: list[Pod]) -> float | None:
        """Create or delete pods; return the seconds until another one may be created."""
        active, target = len(progress.active), counting.wanted(job, progress)
        if active > target:
            newest = sorted(progress.active, key=lambda pod: (pod.status.phase == "Running", created_at(pod)))
            await self._control.delete(job, newest[: active - target])
            return None
        count = min(target - active, BURST)
        if count <= 0:
            return None
        if wait := self._backoff(progress, pods):
            return wait
        if counting.is_indexed(job):
            documents = [self._pod(job, index) for index in counting.next_indexes(job, progress, count)]
        else:
            documents = [self._pod(job, None) for _ in range(count)]
        await self._control.create(job, documents)
        return None

    def _backoff(self, progress: Progress, pods: list[Pod]) -> float:
        """Return the seconds until a failed pod may be replaced."""
        if not progress.failed:
            return 0.0
        times = [at for pod in pods if pod.status.phase == "Failed" and (at := _ended_at(pod)) is not None]
        if not times:
            return 0.0
        delay = counting.backoff(progress.failed)
        return max(delay - (self._clock.now() - max(times)).total_seconds(), 0.0)

    def _pod(self, job: Job, index: int | None) -> Document:
        prefix = f"{job.metadata.name}-" if index is None else f"{job.metadata.name}-{index}-"
        template = job.spec.get("template") or {}
        document = pod_of(template, job, prefix + suffix(self._rng), generate_name=prefix)
        metadata = document["metadata"]
        metadata["finalizers"] = [*metadata.get("finalizers", []), FINALIZER]
        if index is not None:
            metadata["labels"][INDEX] = metadata["annotations"][INDEX] = str(index)
            document["spec"].setdefault("hostname", f"{job.metadata.name}-{index}")
            source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
            for kind in ("initContainers", "containers"):
                if kind in document["spec"]:
                    document["spec"][kind] = [
                        _with_variable(container, {"name": "JOB_COMPLETION_INDEX", "valueFrom": source})
                        for container in document["spec"][kind]
                    ]
        return document

    async def _remove_finalizers(self, pods: list[Pod]) -> None:
        async def remove(pod: Pod) -> None:
            rest = [item for item in pod.metadata.finalizers if item != FINALIZER]
            meta = pod.metadata
            patch = {"metadata": {"uid": meta.uid, "finalizers": rest or None}}
            with suppress(NotFound):
                await self._client.patch_raw(_POD, meta.namespace, meta.name, patch)

        await in_batches(pods, remove)

    async def _release_orphans(self, key: str) -> None:
        """Let go the pods of a Job that is gone: they count for nothing."""
        namespace, _, name = key.partition("/")
        await self._remove_finalizers(
            [
                pod
                for pod in self._pods.store
                if pod.metadata.namespace == namespace
                and FINALIZER in pod.metadata.finalizers
                and (owner := pod.metadata.controller) is not None
                and (owner.kind, owner.name) == ("Job", name)
            ]
        )

    # --- status ----------------------------------------------------------------------------------

    def _suspension(
        self, job: Job, conditions: list[Document], start: str | None, suspended: bool
    ) -> tuple[list[Document], str | None]:
        now, current = self._now(), condition(conditions, "Suspended")
        if suspended:
            conditions = with_condition(conditions, "Suspended", True, "JobSuspended", "Job suspended", now)
            return conditions, None
        if current is not None and current.get("status") == "True":
            conditions = with_condition(conditions, "Suspended", False, "JobResumed", "Job resumed", now)
            self._events.event(job, NORMAL, "Resumed", "Job resumed")
            return conditions, now
        return conditions, start

    def _ended(
        self,
        job: Job,
        conditions: list[Document],
        failure: tuple[str, str] | None,
        done: bool,
        over: bool,
    ) -> list[Document]:
        """Return the conditions with the ones of the end; the last only when no pod is active any more."""
        now = self._now()
        if done:
            reason, told = "CompletionsReached", "Reached expected number of succeeded pods"
            conditions = with_condition(conditions, "SuccessCriteriaMet", True, reason, told, now)
            if over:
                conditions = with_condition(conditions, "Complete", True, reason, told, now)
                self._events.event(job, NORMAL, "Completed", "Job completed")
        elif failure is not None:
            conditions = with_condition(conditions, "FailureTarget", True, *failure, now)
            if over:
                conditions = with_condition(conditions, "Failed", True, *failure, now)
                self._events.event(job, WARNING, failure[0], failure[1])
        return conditions

    async def _count(
        self,
        job: Job,
        pods: list[Pod],
        progress: Progress,
        conditions: list[Document],
        start: str | None,
        over: bool,
    ) -> None:
        """Count the pods that have ended, each once, and write the status."""
        counted = job.status.get("uncountedTerminatedPods") or {}
        uids = {name: list(counted.get(name) or ()) for name in ("succeeded", "failed")}
        left = _MOST_UNCOUNTED
        for name, new in (("succeeded", progress.new_succeeded), ("failed", progress.new_failed)):
            uids[name] += [pod.metadata.uid for pod in new[:left]]
            left -= min(left, len(new))
        now = self._clock.now()
        leaving = [pod for pod in pods if pod.metadata.deletion_timestamp is not None and not pod.is_terminal]
        status: Document = {
            "startTime": start,
            "active": len(progress.active) or None,
            "ready": sum(available_in(pod, 0.0, now) is not None for pod in progress.active),
            "terminating": len(leaving),
            "succeeded": job.count("succeeded") or None,
            "failed": job.count("failed") or None,
            "conditions": [item for item in conditions if item["type"] not in _ENDS] or None,
        }
        if counting.is_indexed(job):
            status["completedIndexes"] = counting.write_indexes(progress.indexes) or None
            status["succeeded"] = len(progress.indexes) or None
        if any(uids.values()):
            pending = {name: found or None for name, found in uids.items()}
            await self._put(job, status | {"uncountedTerminatedPods": pending})
            ended = {*uids["succeeded"], *uids["failed"]}
            tracked = [pod for pod in pods if FINALIZER in pod.metadata.finalizers]
            await self._remove_finalizers([pod for pod in tracked if pod.metadata.uid in ended])
            if not counting.is_indexed(job):
                status["succeeded"] = job.count("succeeded") + len(uids["succeeded"]) or None
            status["failed"] = job.count("failed") + len(uids["failed"]) or None
        if over and left:
            status["conditions"] = conditions
            if any(item["type"] == "Complete" for item in conditions):
                status["completionTime"] = self._now()
        await self._put(job, status | {"uncountedTerminatedPods": {"succeeded": None, "failed": None}})

    async def _put(self, job: Job, status: Document) -> None:
        """Change the status unless the Job was changed since it was read (Conflict)."""
        key = job.metadata.key
        known = self._written.get(key)
        if known is None or known[0] != job.metadata.uid:
            known = (job.metadata.uid, job.metadata.resource_version, job.status)
        _, version, before = known
        after = _applied(before, status)
        if after == before:
            return
        body = {"metadata": {"uid": job.metadata.uid, "resourceVersion": version}, "status": status}
        meta = job.metadata
        try:
            made = await self._client.patch_raw(_JOB, meta.namespace, meta.name, body, subresource="status")
        except BaseException:
            self._written.pop(key, None)
            raise
        self._written[key] = (meta.uid, made["metadata"]["resourceVersion"], made.get("status") or {})

    async def _expire(self, job: Job, finished: str) -> float | None:
        """Delete a finished Job after its ttlSecondsAfterFinished; return the seconds until then."""
        ttl = job.spec.get("ttlSecondsAfterFinished")
        ended = condition(job.status.get("conditions") or [], finished)
        if ttl is None or ended is None or job.metadata.deletion_timestamp is not None:
            return None
        left = float(ttl) - (self._clock.now() - parse_time(ended["lastTransitionTime"])).total_seconds()
        if left > 0:
            return left
        await self._client.delete(
            Job,
            job.metadata.namespace,
            job.metadata.name,
            uid=job.metadata.uid,
            propagation_policy="Foreground",
        )
        return None


def _applied(status: Document, patch: Document) -> Document:
    """Return a status with a merge patch applied."""
    result = dict(status)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _applied(result.get(name) or {}, value)
        else:
            result[name] = value
    return result


def _with_variable(container: Document, variable: Document) -> Document:
    others = [item for item in container.get("env") or () if item.get("name") != variable["name"]]
    return {**container, "env": [*others, variable]}


def _ended_at(pod: Pod) -> datetime | None:
    """Return when a failed pod stopped being ready, which is when it ended."""
    times = [
        parse_time(item.last_transition_time)
        for item in pod.status.conditions
        if item.type in ("Ready", "ContainersReady") and item.last_transition_time
    ]
    return max(times, default=None)
