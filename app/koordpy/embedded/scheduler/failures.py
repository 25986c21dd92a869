"""Records a failed attempt: an event, the pod's condition, its nomination.

What is written, and when nothing is, follows kube-scheduler's `handleSchedulingFailure`.
"""

import logging
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.meta import format_time
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.events import WARNING, Recorder
from koordpy.lib.clock import Clock
from koordpy.scheduling.interface.outcome import PostFilterResult
from koordpy.scheduling.interface.status import Status

log = logging.getLogger(__name__)

CLEARED = PostFilterResult("", override=True)
"""Clears the pod's nomination."""


def reason_of(status: Status) -> str:
    """Return the reason of the PodScheduled condition: a plugin rejected the pod, or an error occurred."""
    return "Unschedulable" if status.is_rejected else "SchedulerError"


async def record(
    client: Client,
    events: Recorder,
    clock: Clock,
    pod: Pod,
    status: Status,
    nomination: PostFilterResult | None,
) -> None:
    """Report a failed attempt and write the changes of the pod's status. Raises NotFound."""
    events.event(pod, WARNING, "FailedScheduling", status.message, action="Scheduling")
    changes: dict[str, Any] = {}
    nominated = pod.status.nominated_node_name
    if nomination is not None and nomination.override and nomination.nominated_node_name != nominated:
        changes["nominatedNodeName"] = nomination.nominated_node_name or None
    condition = _condition(pod, status, clock)
    if condition is not None:
        changes["conditions"] = [condition]
    if not changes:
        return
    meta = pod.metadata
    patch = {"metadata": {"uid": meta.uid}, "status": changes}
    try:
        await client.patch_status(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
    except NotFound:
        raise
    except (ApiError, ConnectionFailed) as error:
        log.warning("cannot record why pod %s is pending: %s", meta.key, error)


def _condition(pod: Pod, status: Status, clock: Clock) -> dict[str, Any] | None:
    """Return the PodScheduled condition if it differs from the pod's."""
    fresh: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason_of(status),
        "message": status.message,
    }
    if pod.metadata.generation:
        fresh["observedGeneration"] = pod.metadata.generation
    known = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    if known is None or known.status != "False":
        return {**fresh, "lastTransitionTime": format_time(clock.now())}
    if (known.reason, known.message) == (fresh["reason"], fresh["message"]):
        return None
    return fresh
