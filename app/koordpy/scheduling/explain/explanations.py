"""Maintains a ScheduleExplanation for every pod that stays unschedulable.

The answer is that of a what-if with the whole profile, so it also covers pods that kube-scheduler rejects
itself and never sends to koordpy, and pods that would fit by now. Objects created here are deleted when their
pod is bound or deleted; an object that a user created is a request, answered for as long as its pod waits.

Koordinator has the type, but its public sources have nothing that reads or writes it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, Final

from koordpy.api.core import Pod
from koordpy.api.meta import format_time, parse_time
from koordpy.api.schedule_explanation import ScheduleExplanation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.lib.token_bucket import TokenBucket
from koordpy.scheduling.interface.diagnosis import node_failed_details
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.preemption.dry_run import Findings
from koordpy.scheduling.profiles.profiles import Profiles

from .cause import Cause
from .settings import ExplanationSettings
from .what_if import Rehearsal, Trial

log = logging.getLogger(__name__)

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OURS: Final = "koordpy"

_ROUND: Final = 2.0
"""Seconds between two checks for due explanations."""


@dataclass(slots=True)
class _Waiting:
    """An unschedulable pod, and when it was last explained, in monotonic seconds."""

    pod: Pod
    explained_at: float = -inf


class ScheduleExplanations:
    """Follows pods and explanations; `run` writes.

    `shared_causes` returns why a pod waits that would fit by itself: for the rest of its gang, for example.
    """

    def __init__(
        self,
        settings: ExplanationSettings,
        profiles: Profiles,
        handle: Handle,
        client: Client,
        shared_causes: Callable[[Pod], Sequence[Cause]] = lambda _: (),
    ) -> None:
        self.settings, self._shared_causes = settings, shared_causes
        self._profiles, self._handle, self._client, self._clock = profiles, handle, client, handle.clock
        self._bucket = TokenBucket(
            settings.writes_per_second, max(1, round(settings.writes_per_second)), handle.clock
        )
        self._waiting: dict[str, _Waiting] = {}
        self._deleted_at: dict[str, float] = {}
        self._known = handle.cluster.store(ScheduleExplanation)
        handle.on(ScheduleExplanation, delete=lambda gone: self._forget(gone.metadata.uid))
        handle.on(Pod, self._seen, lambda _, pod: self._seen(pod), lambda pod: self._gone(pod))

    def _seen(self, pod: Pod) -> None:
        if not is_unschedulable(pod) or self._profiles.whole_of(pod.spec.scheduler_name) is None:
            self._gone(pod)
            return
        known = self._waiting.get(pod.metadata.key)
        if known is None or known.pod.metadata.uid != pod.metadata.uid:
            self._waiting[pod.metadata.key] = _Waiting(pod)
        else:
            known.pod = pod

    def _gone(self, pod: Pod) -> None:
        known = self._waiting.get(pod.metadata.key)
        if known is not None and known.pod.metadata.uid == pod.metadata.uid:
            del self._waiting[pod.metadata.key]

    def _forget(self, uid: str) -> None:
        self._deleted_at.pop(uid, None)

    # --- writing ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write until cancelled, one object after the other, as fast as the rate allows."""
        while True:
            work = self._next()
            if work is None:
                await asyncio.sleep(_ROUND)
                continue
            await asyncio.sleep(self._bucket.reserve())
            try:
                await work()
            except (ApiError, ConnectionFailed) as error:
                log.warning("ScheduleExplanation: %s", error)

    def _next(self) -> Callable[[], Awaitable[None]] | None:
        """Return what is next: objects to be deleted first, then the pod that has waited longest."""
        if not self._handle.cluster.synced:
            return None
        now = self._clock.monotonic()
        for explanation in self._known:
            meta = explanation.metadata
            if meta.labels.get(MANAGED_BY) != OURS or self._asked(explanation) in self._waiting:
                continue
            if now - self._deleted_at.get(meta.uid, -inf) >= self.settings.refresh:
                self._deleted_at[meta.uid] = now
                return partial(self._delete, explanation)
        due = [waiting for waiting in self._waiting.values() if self._is_due(waiting)]
        if not due:
            return None
        waiting = min(due, key=lambda one: one.explained_at)
        waiting.explained_at = now
        return partial(self._explain, waiting)

    def _is_due(self, waiting: _Waiting) -> bool:
        if waiting.explained_at != -inf:
            return self._clock.monotonic() - waiting.explained_at >= self.settings.refresh
        now = self._clock.now()
        return (now - since(waiting.pod, now)).total_seconds() >= self.settings.after

    def _asked(self, explanation: ScheduleExplanation) -> str:
        meta = explanation.metadata
        key = explanation.spec.question_object_key
        return key if key.startswith(f"{meta.namespace}/") else ""

    async def _explain(self, waiting: _Waiting) -> None:
        pod = waiting.pod
        if self._waiting.get(pod.metadata.key) is not waiting:
            return  # it is bound or gone by now
        framework = self._profiles.whole_of(pod.spec.scheduler_name)
        if framework is None:
            return
        rehearsal = Rehearsal(framework, self._handle.cluster)
        trial = rehearsal.try_pod(pod)
        findings = rehearsal.find_evictions(pod, trial)
        causes = self._shared_causes(pod) if trial.best is not None else ()
        status = answer(pod, trial, findings, self._clock.now(), self.settings.nodes, causes)
        meta = pod.metadata
        asking = [item for item in self._known if self._asked(item) == meta.key]
        ours = [item for item in asking if item.metadata.labels.get(MANAGED_BY) == OURS]
        for item in ours:
            if not any(owner.uid == meta.uid for owner in item.metadata.owner_references):
                await self._delete(item)  # an earlier pod of this name
                asking.remove(item)
        names = [item.metadata.name for item in asking]
        if not names:
            await self._create(pod)
            names = [meta.name]
        for name in names:
            await self._client.patch_status(ScheduleExplanation, meta.namespace, name, {"status": status})

    async def _create(self, pod: Pod) -> None:
        resource, meta = resource_of(ScheduleExplanation), pod.metadata
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "labels": {MANAGED_BY: OURS},
                "ownerReferences": [owner],
            },
            "spec": {"questionObjectKey": meta.key},
        }
        await self._client.create_raw(resource, meta.namespace, document)

    async def _delete(self, explanation: ScheduleExplanation) -> None:
        meta = explanation.metadata
        with suppress(NotFound):
            await self._client.delete(ScheduleExplanation, meta.namespace, meta.name, uid=meta.uid)


def is_unschedulable(pod: Pod) -> bool:
    """Return whether a scheduler has reported a pod as unschedulable, and it still has no node."""
    if pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp:
        return False
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and condition.reason == "Unschedulable"
        for condition in pod.status.conditions
    )


def since(pod: Pod, now: datetime) -> datetime:
    """Return since when a pod has been unschedulable; `now` if its condition has no time."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.last_transition_time:
            try:
                return parse_time(condition.last_transition_time)
            except ValueError:
                break
    return now


def answer(
    pod: Pod, trial: Trial, findings: Findings, now: datetime, nodes: int, causes: Sequence[Cause] = ()
) -> dict[str, Any]:
    """Return a status: the result of a cycle, and which evictions would help.

    `causes` are why the pod waits even if it fits. Members that do not apply are null, which clears them.
    """
    fits = trial.best is not None and not causes
    message = None if fits else "; ".join(cause.message for cause in causes) or trial.message
    meta = pod.metadata
    level: dict[str, Any] = {"schedulable": fits}
    if fits:
        placed = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "nodeName": trial.node}
        level["feasibleSchedulingResult"] = [placed]
    else:
        level["failedMessage"] = message
        details = [] if trial.outcome is None else node_failed_details(_statuses(trial.outcome))
        level["nodeFailedDetails"] = [
            {**detail, "failedNodes": detail["failedNodes"][:nodes]} for detail in details
        ]
    domain: dict[str, Any] = {"schedulable": fits, "scheduleExplanation": level}
    if not fits:
        domain |= {
            "failedMessage": message,
            "schedulableAfterPreemption": bool(findings.candidates),
            "nodePossibleVictims": [
                {"nodeName": node, "possibleVictims": [_victim(pod) for pod in victims.pods]}
                for node, victims in findings.candidates.items()
            ],
        }
    return {
        "schedulable": fits,
        "schedulableAfterPreemption": bool(findings.candidates),
        "failedMessage": message,
        "lastUpdateTime": format_time(now),
        "detailedExplanation": [domain],
    }


def _victim(pod: Pod) -> dict[str, Any]:
    meta = pod.metadata
    return {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}


def _statuses(outcome: FilterOutcome) -> Mapping[str, Status]:
    if not outcome.prefilter.is_success:
        return dict.fromkeys(outcome.nodes.names, outcome.prefilter)
    return {name: status for status, names in outcome.failed() for name in names}
