"""What all workload controllers have: a queue of keys, a view of the cluster, writes of statuses, events."""

import logging
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from koordpy.api.meta import KubeObject, format_time
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed, NotFound
from koordpy.cluster.events import Recorder
from koordpy.controllers.queue import RetryLimiter, WorkQueue
from koordpy.controllers.reconcile import reconcile_forever
from koordpy.lib.clock import Clock

from .objects import Workload

log = logging.getLogger(__name__)

Document = dict[str, Any]

_AFTER_CONFLICT = 0.05
"""Seconds after which an object that was changed meanwhile is reconciled again."""
_LONGEST_BACKOFF = 60.0


@dataclass(frozen=True)
class Context:
    """What controllers are given. `catch_up` waits until the view shows all earlier writes of some types."""

    cluster: Cluster
    client: Client
    clock: Clock
    rng: random.Random
    recorder: Callable[[str], Recorder]
    catch_up: Callable[..., Awaitable[None]]


class Controller(ABC):
    """Reconciles the objects of one type. A subclass requests its stores in its constructor."""

    name: ClassVar[str]
    """As kube-controller-manager names it in events."""
    workers: ClassVar[int] = 4

    def __init__(self, context: Context) -> None:
        self._context = context
        self._client, self._clock, self._rng = context.client, context.clock, context.rng
        self.queue = WorkQueue(self.name, context.clock)
        self._failures = RetryLimiter(context.clock, maximum=_LONGEST_BACKOFF)
        self._events = context.recorder(self.name)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await reconcile_forever(self.queue, self._reconcile, workers=self.workers)

    async def _reconcile(self, key: str) -> float | None:
        try:
            again = await self.reconcile(key)
        except Conflict:  # the watch brings the other change
            return _AFTER_CONFLICT
        except NotFound as error:  # deleted meanwhile, or its namespace is
            log.debug("%s: %s: %s", self.name, key, error)
            again = None
        except (ApiError, ConnectionFailed) as error:  # a refused pod, for example: events tell users
            log.info("%s: %s: %s", self.name, key, error)
            return self._failures.when(key)
        self._failures.forget(key)
        return again

    @abstractmethod
    async def reconcile(self, key: str) -> float | None:
        """Reconcile one object; return the seconds after which to do so again, None for never."""

    def _now(self) -> str:
        return format_time(self._clock.now())

    async def _write_status(self, obj: Workload, status: Document) -> None:
        """Replace a status unless it is the current one; fields that are 0, False or empty are left out."""
        status = {name: value for name, value in status.items() if value is not None}
        if status == obj.status:
            return
        patch: Document = {name: None for name in obj.status if name not in status}
        patch |= {name: value for name, value in status.items() if obj.status.get(name) != value}
        meta = obj.metadata
        body = {"metadata": {"uid": meta.uid}, "status": patch}
        await self._client.patch_raw(
            resource_of(type(obj)), meta.namespace, meta.name, body, subresource="status"
        )

    async def _patch(self, obj: KubeObject, patch: Document) -> Document:
        """Merge a change into an object unless another one was made meanwhile (Conflict)."""
        meta = obj.metadata
        versioned = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {**patch, "metadata": {**patch.get("metadata", {}), **versioned}}
        return await self._client.patch_raw(resource_of(type(obj)), meta.namespace, meta.name, patch)


def with_condition(
    conditions: list[Document],
    type_: str,
    status: bool,
    reason: str,
    message: str,
    now: str,
    *,
    update_time: bool = False,
) -> list[Document]:
    """Return conditions with one set. The transition time changes with its status only."""
    old = next((item for item in conditions if item.get("type") == type_), None)
    text = "True" if status else "False"
    if old is not None and (old.get("status"), old.get("reason"), old.get("message")) == (
        text,
        reason,
        message,
    ):
        return conditions
    new: Document = {"type": type_, "status": text, "reason": reason, "message": message}
    kept = old is not None and old.get("status") == text
    new["lastTransitionTime"] = old.get("lastTransitionTime", now) if kept and old is not None else now
    if update_time:
        new["lastUpdateTime"] = now
    return [*(item for item in conditions if item.get("type") != type_), new]


def condition(conditions: list[Document], type_: str) -> Document | None:
    """Return the condition of a type."""
    return next((item for item in conditions if item.get("type") == type_), None)
