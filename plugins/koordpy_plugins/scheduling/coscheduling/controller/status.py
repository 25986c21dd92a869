"""The status of a PodGroup, one step at a time.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/controller/podgroup.go`.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from koordpy.api.core import Pod
from koordpy.api.koordinator import PodGroup
from koordpy.api.meta import format_time, parse_time

PENDING: Final = "Pending"
PRE_SCHEDULING: Final = "PreScheduling"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"

FORGOTTEN_AFTER: Final = timedelta(hours=48)
"""A PodGroup that took longer than this until its scheduling began, and of which nothing runs, is left alone:
its pods may have been deleted as garbage."""


def is_settled(pod_group: PodGroup) -> bool:
    """Return whether nothing more is expected of a PodGroup's status."""
    status = pod_group.status
    if status.phase in (FINISHED, FAILED):
        return True
    if status.scheduled != pod_group.spec.min_member or status.running != 0:
        return False
    started, created = _time(status.schedule_start_time), _time(pod_group.metadata.creation_timestamp)
    if started is None:
        return False
    return created is None or started - created > FORGOTTEN_AFTER


def next_status(
    pod_group: PodGroup, pods: Sequence[Pod], bound: int, now: datetime
) -> PodGroup.PodGroupStatus:
    """Return the status after one step; `bound` of the gang's pods are bound."""
    status, needed = pod_group.status, pod_group.spec.min_member
    replace = msgspec.structs.replace
    match status.phase:
        case "":
            return replace(status, phase=PENDING)
        case "Pending":
            if not 0 < needed <= len(pods):
                return status
            return replace(status, phase=PRE_SCHEDULING, occupied_by=_owners(pods[0]) or status.occupied_by)
    if not pods:
        return replace(status, phase=PENDING)
    phases = Counter(pod.status.phase for pod in pods)
    running, succeeded, failed = phases["Running"], phases["Succeeded"], phases["Failed"]
    phase, started = SCHEDULED, status.schedule_start_time
    if bound < needed:
        phase, started = SCHEDULING, started or format_time(now)
    elif succeeded + running >= needed:
        phase = RUNNING
    if failed and failed + running + succeeded >= needed:
        phase = FAILED
    if succeeded >= needed:
        phase = FINISHED
    return replace(
        status,
        phase=phase,
        scheduled=bound,
        running=running,
        succeeded=succeeded,
        failed=failed,
        schedule_start_time=started,
    )


def patch_between(old: PodGroup.PodGroupStatus, new: PodGroup.PodGroupStatus) -> dict[str, Any] | None:
    """Return the merge patch of a PodGroup from one status to another, None if they are equal."""
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    changed |= {name: None for name in before if name not in after}
    return {"status": changed} if changed else None


def _owners(pod: Pod) -> str:
    meta = pod.metadata
    return ",".join(sorted(f"{meta.namespace}/{owner.name}" for owner in meta.owner_references))


def _time(text: str | None) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
