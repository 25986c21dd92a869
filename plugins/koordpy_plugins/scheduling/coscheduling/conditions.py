"""The PodScheduled condition of members that were not tried, because their gang failed before their turn.

Without it they would show nothing, or an old reason, until they are tried themselves. Source: Koordinator,
`pkg/scheduler/plugins/coscheduling/core/core.go` (`patchGangPendingPodsCondition`).
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.meta import Condition, format_time
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed, NotFound
from koordpy.cluster.events import truncate
from koordpy.lib.feature_gates import FeatureSpec, Stage
from koordpy.scheduling.interface.fit_error import fit_error
from koordpy.scheduling.interface.handle import Handle

from .state.context import SchedulingContext
from .state.gang import Gang
from .state.gang_cache import GangCache

log = logging.getLogger(__name__)

GATE: Final = "GangPendingPodsConditionPatch"
"""Members that were not tried show why their gang failed. Koordinator's gate, and its default."""

SPEC: Final = FeatureSpec(True, Stage.BETA)

POD_SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"

AT_ONCE: Final = 16
"""Conditions that are written at the same time."""


class PendingConditions:
    """Writes the conditions, beside the scheduling of other pods."""

    def __init__(self, handle: Handle, cache: GangCache) -> None:
        self._handle, self._cache = handle, cache

    def patch(self, gang: Gang, pod: Pod, context: SchedulingContext, post_filter_message: str) -> None:
        """Write why a round failed to the pending members that were not tried in it; `pod` was."""
        message = fit_error(
            len(self._handle.nodes), {}, pre_filter=context.failed_message, post_filter=post_filter_message
        )
        left = [
            member
            for each in self._cache.known(gang.settings.group)
            for key, member in each.pending.items()
            if key != pod.metadata.key and key not in context.attempted
        ]
        self._spawn(left, message)

    def patch_new(self, pods: Iterable[Pod], reason: str) -> None:
        """Write why a job was refused to those of its pods that were never told that they do not fit."""
        left = [pod for pod in pods if not (pod.spec.scheduling_gates or _was_told(pod))]
        self._spawn(left, fit_error(len(self._handle.nodes), {}, pre_filter=reason))

    def _spawn(self, pods: Sequence[Pod], message: str) -> None:
        client = self._handle.client
        if client is not None and pods and self._handle.gates.enabled(GATE):
            self._handle.spawn(self._write_all(client, pods, message))

    async def _write_all(self, client: Client, pods: Sequence[Pod], message: str) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def write(pod: Pod) -> None:
            async with limit:
                await self._write(client, pod, message)

        await asyncio.gather(*(write(pod) for pod in pods))

    async def _write(self, client: Client, pod: Pod, message: str) -> None:
        meta = pod.metadata
        told = _told(pod)
        wanted = Condition(POD_SCHEDULED, "False", UNSCHEDULABLE, truncate(message))
        if told is not None and _text(told) == _text(wanted):
            return
        since = told.last_transition_time if told is not None and told.status == wanted.status else None
        condition = {
            "type": wanted.type,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "lastTransitionTime": since or format_time(self._handle.clock.now()),
        }
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await client.patch_status(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
        except (NotFound, Conflict):
            return  # gone, or another pod by now
        except (ApiError, ConnectionFailed) as error:
            log.warning("cannot write to pod %s why its gang is unschedulable: %s", meta.key, error)


def _told(pod: Pod) -> Condition | None:
    return next((each for each in pod.status.conditions if each.type == POD_SCHEDULED), None)


def _text(condition: Condition) -> tuple[str, str, str]:
    return condition.status, condition.reason, condition.message


def _was_told(pod: Pod) -> bool:
    told = _told(pod)
    return told is not None and told.reason == UNSCHEDULABLE
