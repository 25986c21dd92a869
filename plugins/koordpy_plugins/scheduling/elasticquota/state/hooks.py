"""The hook plugins of a quota tree: how they are found, created and called.

A package registers a factory under a key by an entry point, or with `register`; the argument `hookPlugins`
names the factories to use. Each quota tree has its own plugins. Source: Koordinator,
`pkg/scheduler/plugins/elasticquota/core/hook_plugin.go`.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.args import HookPluginConf
from koordpy.lib.entry_points import entry_points
from koordpy.scheduling.interface.quota_hooks import (
    GROUP,
    HookFactory,
    QuotaHook,
    QuotaReader,
    QuotaRecord,
    QuotaUpdateState,
)

from .latency import HOOK_FAILURES, HOOK_LATENCY

log = logging.getLogger(__name__)

T = TypeVar("T")

_FACTORIES: dict[str, HookFactory] = {}


def register(key: str, factory: HookFactory) -> None:
    """Make a factory available under a key."""
    _FACTORIES[key] = factory


class HookError(ValueError):
    """Hook plugins could not be created; the message is Koordinator's."""


@dataclass(frozen=True)
class NamedHook:
    """A hook plugin with its key, measured. What it raises is logged once for each method, and counted.

    Operations are named as in Koordinator's metric.
    """

    key: str
    plugin: QuotaHook
    _logged: set[str] = field(default_factory=set, compare=False)

    def is_quota_updated(self, old: QuotaRecord, new: QuotaRecord, quota: ElasticQuota) -> bool:
        """Return whether a quota changed for the plugin."""
        return bool(self._call("is_quota_updated", self.plugin.is_quota_updated, old, new, quota))

    def pre_quota_update(
        self, old: QuotaRecord | None, new: QuotaRecord | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        """Tell the plugin that a quota will change."""
        self._call("pre_quota_update", self.plugin.pre_quota_update, old, new, quota, state)

    def post_quota_update(
        self, old: QuotaRecord | None, new: QuotaRecord | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        """Tell the plugin that a quota has changed."""
        self._call("post_quota_update", self.plugin.post_quota_update, old, new, quota, state)

    def on_pod_updated(self, quota_name: str, old: Pod | None, new: Pod | None) -> None:
        """Tell the plugin of a pod that has a node."""
        self._call("on_pod_update", self.plugin.on_pod_updated, quota_name, old, new)

    def update_quota_status(self, quota: ElasticQuota, updated: ElasticQuota | None) -> ElasticQuota | None:
        """Return the quota that the plugin wants to be written."""
        return self._call("update_quota_status", self._updated_status, quota, updated)

    def _updated_status(self, quota: ElasticQuota, updated: ElasticQuota | None) -> ElasticQuota | None:
        found = self.plugin.update_quota_status(quota, updated)
        if found is not None and not isinstance(found, ElasticQuota):
            raise TypeError(f"got {type(found).__name__}, expected an ElasticQuota or None")
        return found

    def check_pod(self, quota_name: str, pod: Pod) -> str:
        """Return why the plugin refuses a pod; one that raises refuses it."""
        try:
            return self._measured("check_pod", self.plugin.check_pod, quota_name, pod) or ""
        except Exception as error:
            self._failed("check_pod")
            return f"{type(error).__name__}: {error}"

    def on_batch_reset_begin(self) -> None:
        """Tell the plugin that all quotas will be shown to it."""
        self._try("on_batch_reset_begin", self.plugin.on_batch_reset_begin)

    def on_batch_reset_end(self) -> None:
        """Tell the plugin that all quotas have been shown to it."""
        self._try("on_batch_reset_end", self.plugin.on_batch_reset_end)

    def _call(self, operation: str, method: Callable[..., T], *args: Any) -> T | None:
        return self._try(operation, self._measured, operation, method, *args)

    def _try(self, operation: str, method: Callable[..., T], *args: Any) -> T | None:
        try:
            return method(*args)
        except Exception:
            self._failed(operation)
            return None

    def _measured(self, operation: str, method: Callable[..., T], *args: Any) -> T:
        began = time.perf_counter()
        try:
            return method(*args)
        finally:
            HOOK_LATENCY.labels(self.key, operation).observe(time.perf_counter() - began)

    def _failed(self, operation: str) -> None:
        HOOK_FAILURES.labels(self.key, operation).inc()
        if operation not in self._logged:
            self._logged.add(operation)
            log.exception("hook plugin %s of quotas failed in %s; logged once", self.key, operation)


def create(tree: str, reader: QuotaReader, configured: Iterable[HookPluginConf]) -> tuple[NamedHook, ...]:
    """Create the hook plugins of a tree. Raises HookError, with all problems: then none is installed."""
    made: list[NamedHook] = []
    problems: list[str] = []
    for index, conf in enumerate(configured):
        failed = f"failed to initialize hook plugin {conf.key}: "
        if not conf.key:
            problems.append(f"failed to initialize index-{index} hook plugin: key is empty")
        elif not conf.factory_key:
            problems.append(f"{failed}factory key is empty")
        elif (factory := _factory(conf.factory_key)) is None:
            problems.append(f"{failed}factory {conf.factory_key} not found")
        else:
            try:
                made.append(NamedHook(conf.key, factory(reader, conf.key, conf.factory_args)))
            except Exception as error:
                problems.append(
                    f"failed to initialize hook-plugin {conf.key} by factory {conf.factory_key}, err={error}"
                )
    if problems:
        distinct = list(dict.fromkeys(problems))
        listed = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
        raise HookError(f"failed to init hook plugins for tree {tree}, err={listed}")
    return tuple(made)


def _factory(key: str) -> HookFactory | None:
    if key not in _FACTORIES:
        for found in entry_points(GROUP):
            if found.name == key:
                _FACTORIES[key] = found.load()
    return _FACTORIES.get(key)
