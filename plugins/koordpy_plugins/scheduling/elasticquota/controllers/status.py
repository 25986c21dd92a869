"""What a quota requests, uses and is given, written to its ElasticQuota.

A list is written when it differs from the stored one by value, 0 counting like a missing name; then it is
written whole. Source: Koordinator, `pkg/scheduler/plugins/elasticquota/controller.go`.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from operator import attrgetter, is_
from typing import Any, Final

import msgspec

from koordpy.api import extension, json_merge, resource_list
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import Quantity, QuantityError
from koordpy.api.resource_list import Quantities
from koordpy.api.scheme import DecodeError, decode
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.retry import retried
from koordpy.scheduling.interface.handle import Handle

from ..metrics import UPDATE_SECONDS
from ..state.managers import Managers
from ..state.quota_info import QuotaInfo
from ..state.source import Trees

log = logging.getLogger(__name__)

ANNOTATIONS: Final[Mapping[str, str]] = {
    extension.ANNOTATION_QUOTA_RUNTIME: "runtime",
    extension.ANNOTATION_QUOTA_REQUEST: "request",
    extension.ANNOTATION_QUOTA_CHILD_REQUEST: "child_request",
    extension.ANNOTATION_QUOTA_GUARANTEED: "guaranteed",
    extension.ANNOTATION_QUOTA_ALLOCATED: "allocated",
    extension.ANNOTATION_QUOTA_NON_PREEMPTIBLE_REQUEST: "non_preemptible_request",
    extension.ANNOTATION_QUOTA_NON_PREEMPTIBLE_USED: "non_preemptible_used",
}
"""The annotations, each with the list of a quota's record that it shows."""

_WRITERS: Final = 16
"""Writes at a time."""

_SLICE: Final = 0.005
"""Seconds after which others of the event loop get their turn."""

_lists_of: Final = attrgetter(*ANNOTATIONS.values(), "used")

_Seen = tuple[ElasticQuota, tuple[Quantities, ...]]


def status_patch(quota: ElasticQuota, info: QuotaInfo) -> dict[str, Any]:
    """Return the JSON merge patch that shows a quota's record, empty if nothing differs.

    Raises DecodeError for an annotation, QuantityError for an amount in use, that cannot be read.
    """
    annotations: dict[str, str] = {}
    for key, field in ANNOTATIONS.items():
        current: Quantities | None = getattr(info, field)
        text = quota.metadata.annotations.get(key)
        stored = (resource_list.parse(text) or {}) if text else {}
        if _non_zero(stored) != _non_zero(current or {}):
            annotations[key] = resource_list.text(current)
    patch: dict[str, Any] = {"metadata": {"annotations": annotations}} if annotations else {}
    used = resource_list.from_wire(quota.status.used)
    if _non_zero(used) != _non_zero(info.used or {}):
        patch["status"] = {"used": _replacing(used, info.used) if info.used else None}
    return patch


def _non_zero(amounts: Mapping[str, Quantity]) -> Quantities:
    return {name: amount for name, amount in amounts.items() if not amount.is_zero}


def _replacing(stored: Quantities, current: Quantities) -> dict[str, str | None]:
    """Return what makes one list of the other: amounts that differ, null for names that go."""
    changes: dict[str, str | None] = dict.fromkeys(stored.keys() - current.keys())
    changes.update({name: str(amount) for name, amount in current.items() if stored.get(name) != amount})
    return changes


class StatusWriter:
    """Writes the status of all quotas.

    A pass looks at a quota again only if its object or one of its lists was replaced since. Hook plugins are
    asked about each quota each time.
    """

    def __init__(self, handle: Handle, trees: Trees) -> None:
        self._handle, self._trees = handle, trees
        self._quotas = handle.cluster.store(ElasticQuota)
        self._seen: dict[str, _Seen] = {}
        """What was as it should be, by `namespace/name`: the object, and the lists of the record."""

    def forget(self) -> None:
        """Begin anew: another process may have written meanwhile."""
        self._seen.clear()

    async def write(self) -> bool:
        """Write what differs; return whether every write succeeded."""
        due = []
        quotas = list(self._quotas)
        clock = asyncio.get_running_loop().time
        since, managers = clock(), self._trees.managers
        for quota in quotas:
            if (item := self._due(quota, managers)) is not None:
                due.append(item)
            if clock() - since > _SLICE:
                await asyncio.sleep(0)
                since, managers = clock(), self._trees.managers
        if len(self._seen) > len(quotas):
            known = {quota.metadata.key for quota in quotas}
            self._seen = {key: seen for key, seen in self._seen.items() if key in known}
        return await self._write_all(due)

    def patch_for(self, quota: ElasticQuota) -> dict[str, Any]:
        """Return what is to be written to a quota. Raises DecodeError, QuantityError."""
        manager = self._trees.managers.of_quota(quota.metadata.name)
        info = manager.get(quota.metadata.name)
        if info is None:
            return {}
        patch = status_patch(quota, info)
        if not manager.hooks:
            return patch
        before = msgspec.to_builtins(quota)
        updated = decode(ElasticQuota, json_merge.apply(before, patch)) if patch else None
        for hook in manager.hooks:
            updated = hook.update_quota_status(quota, updated) or updated
        return json_merge.diff(before, msgspec.to_builtins(updated)) if updated is not None else {}

    def _due(
        self, quota: ElasticQuota, managers: Managers
    ) -> tuple[ElasticQuota, dict[str, Any], _Seen] | None:
        name, key = quota.metadata.name, quota.metadata.key
        manager = managers.of_quota(name)
        info = manager.get(name)
        if info is None:
            return None
        seen = (quota, _lists_of(info))
        if not manager.hooks and _is_same(self._seen.get(key), seen):
            return None
        try:
            patch = self.patch_for(quota)
        except (DecodeError, QuantityError) as error:
            log.error("ElasticQuota %s: its status is not written: %s", key, error)
            patch = {}
        if patch:
            return quota, patch, seen
        self._seen[key] = seen
        return None

    async def _write_all(self, due: Iterable[tuple[ElasticQuota, dict[str, Any], _Seen]]) -> bool:
        waiting = iter(due)
        failed = 0

        async def work() -> None:
            nonlocal failed
            for quota, patch, seen in waiting:
                if await self._write(quota, patch):
                    self._seen[quota.metadata.key] = seen
                else:
                    failed += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WRITERS):
                tasks.create_task(work())
        return not failed

    async def _write(self, quota: ElasticQuota, patch: dict[str, Any]) -> bool:
        metadata, client = quota.metadata, self._handle.client
        if client is None:
            return False
        send = partial(client.patch, ElasticQuota, metadata.namespace, metadata.name, patch)
        with UPDATE_SECONDS.time():
            try:
                await retried(send, rng=self._handle.rng)
            except NotFound:
                log.debug("ElasticQuota %s is gone: its status is not written", metadata.key)
            except (ApiError, ConnectionFailed) as error:
                log.error("failed to patch ElasticQuota %s: %s", metadata.key, error)
                return False
        return True


def _is_same(known: _Seen | None, now: _Seen) -> bool:
    """Return whether nothing was replaced; the lists of a record are never changed in place."""
    return known is not None and known[0] is now[0] and all(map(is_, known[1], now[1]))
