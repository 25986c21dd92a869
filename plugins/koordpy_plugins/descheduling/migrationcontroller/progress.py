"""One PodMigrationJob while a reconciliation works on it: its newest version, and its writes.

Writes are merge patches that carry the version on which they are based, so that nothing is overwritten that
somebody else wrote meanwhile: Conflict, and the job is reconciled again. Source: Koordinator,
`pkg/descheduler/controllers/migration/util/util.go`.
"""

import json
from typing import Any, Protocol

import msgspec

from koordpy.api.core import ObjectReference
from koordpy.api.meta import Condition, KubeObject, format_time
from koordpy.api.pod_migration_job import (
    ANNOTATION_EVICT_REASON,
    ANNOTATION_EVICT_TRIGGER,
    FAILED,
    PodMigrationJob,
)
from koordpy.cluster.client import Client
from koordpy.lib.clock import Clock

ACTION = "Migrating"
"""The action of all events."""

TRUE, FALSE = "True", "False"


class EventRecorder(Protocol):
    """Where events go."""

    def event(self, regarding: KubeObject, type_: str, reason: str, note: str, *, action: str = "") -> None:
        """Record an event about an object."""
        ...


class Progress:
    """A job of one reconciliation. `job` is its version after the last write, with unwritten changes."""

    def __init__(
        self, job: PodMigrationJob, client: Client, events: EventRecorder | None, clock: Clock
    ) -> None:
        self.job = _own(job)
        self._client, self._events, self._clock = client, events, clock

    @property
    def pod_ref(self) -> ObjectReference:
        """The pod to migrate; empty if the job names none."""
        return self.job.spec.pod_ref or ObjectReference()

    @property
    def pod(self) -> str:
        """The pod's `namespace/name`, quoted, as messages have it."""
        return quoted(self.job.pod_key)

    @property
    def reservation_name(self) -> str | None:
        """The name of the job's Reservation, None before there is a reference to one."""
        options = self.job.spec.reservation_options
        reference = options.reservation_ref if options is not None else None
        return None if reference is None else reference.name

    # --- conditions and status -------------------------------------------------------------------

    def set_condition(self, type_: str, status: str, reason: str = "", message: str = "") -> bool:
        """Set a condition without writing it; return whether that changed it.

        Its transition time changes only with its status.
        """
        conditions = self.job.status.conditions
        fresh = Condition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=format_time(self._clock.now()),
        )
        known = self.job.condition(type_)
        if known is None:
            conditions.append(fresh)
            return True
        if known.status == status:
            fresh.last_transition_time = known.last_transition_time
        conditions[conditions.index(known)] = fresh
        return fresh != known

    async def update_condition(self, type_: str, status: str, reason: str = "", message: str = "") -> None:
        """Set a condition; if it changed, take it over into the status and write that."""
        if self.set_condition(type_, status, reason, message):
            state = self.job.status
            state.status, state.reason, state.message = type_, reason, message
            await self.write_status()

    async def fail(self, reason: str, message: str, *, event: bool = True) -> None:
        """End the job as failed. `status.status` stays at the last condition."""
        state = self.job.status
        state.phase, state.reason, state.message = FAILED, reason, message
        await self.write_status()
        if event:
            self.warn(reason, message)

    async def write_status(self) -> None:
        """Write the whole status. Raises Conflict if the job was changed meanwhile."""
        state = self.job.status
        patch = {
            "metadata": {"resourceVersion": self.job.metadata.resource_version},
            "status": {
                "phase": state.phase or None,
                "status": state.status or None,
                "reason": state.reason or None,
                "message": state.message or None,
                "nodeName": state.node_name or None,
                "podRef": None if state.pod_ref is None else _whole(state.pod_ref),
                "conditions": [msgspec.to_builtins(item) for item in state.conditions] or None,
            },
        }
        self._take(await self._client.patch_status(PodMigrationJob, "", self.job.metadata.name, patch))

    async def write(self, patch: dict[str, Any]) -> None:
        """Write other fields than the status; unwritten changes of the status are lost, as in Koordinator.

        Raises Conflict if the job was changed meanwhile.
        """
        metadata = {"resourceVersion": self.job.metadata.resource_version, **patch.get("metadata", {})}
        name = self.job.metadata.name
        self._take(await self._client.patch(PodMigrationJob, "", name, {**patch, "metadata": metadata}))

    def _take(self, written: PodMigrationJob) -> None:
        self.job = _own(written)

    # --- events ----------------------------------------------------------------------------------

    def note(self, reason: str, message: str) -> None:
        """Record an event of type Normal about the job."""
        self._event("Normal", reason, message)

    def warn(self, reason: str, message: str) -> None:
        """Record a Warning about the job."""
        self._event("Warning", reason, message)

    def _event(self, type_: str, reason: str, message: str) -> None:
        if self._events is not None:
            self._events.event(self.job, type_, reason, message, action=ACTION)


def trigger_and_reason(job: PodMigrationJob) -> tuple[str, str]:
    """Return the plugin that evicts a job's pod, and why, in words."""
    annotations = job.metadata.annotations
    trigger = annotations.get(ANNOTATION_EVICT_TRIGGER, "")
    return trigger, annotations.get(ANNOTATION_EVICT_REASON, "") or trigger or "NotSet"


def quoted(text: str) -> str:
    """Quote a text as Go's `%q`."""
    return json.dumps(text, ensure_ascii=False)


def _own(job: PodMigrationJob) -> PodMigrationJob:
    """Return a job whose status and conditions may be changed; objects of a store may not."""
    status = msgspec.structs.replace(job.status, conditions=list(job.status.conditions))
    return msgspec.structs.replace(job, status=status)


def _whole(reference: ObjectReference) -> dict[str, Any]:
    """Return a reference so that a merge patch replaces another one, with nulls for what is empty."""
    return {
        field.encode_name: getattr(reference, field.name) or None
        for field in msgspec.structs.fields(ObjectReference)
    }
