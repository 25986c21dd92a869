"""Hook plugins: code of others that observes quotas and pods, and may refuse pods.

A package registers a factory under a key, with `register` or by an entry point of the group
`koordpy.quotahooks`; the argument `hookPlugins` names the factories to use. Each quota tree has its own
instances. Source: Koordinator, `pkg/scheduler/plugins/elasticquota/core/hook_plugin.go`.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Final, Protocol

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.args import HookPluginConf

from .latency import HOOK_LATENCY
from .quota_info import QuotaInfo

GROUP: Final = "koordpy.quotahooks"
"""The entry point group of factories; the name of an entry point is the factory's key."""


class QuotaReader(Protocol):
    """What hook plugins may read of their tree."""

    def get(self, name: str) -> QuotaInfo | None:
        """Return a quota by name."""
        ...

    def children_of(self, name: str) -> list[QuotaInfo]:
        """Return the children of a quota."""
        ...


@dataclass
class QuotaUpdateState:
    """What a hook plugin keeps between PreQuotaUpdate and PostQuotaUpdate of one change."""

    storage: dict[str, Any] = field(default_factory=dict)


class QuotaHook:
    """A hook plugin; the defaults do nothing. It must not change what it is given."""

    def is_quota_updated(self, old: QuotaInfo, new: QuotaInfo, quota: ElasticQuota) -> bool:
        """Return whether a quota changed for this plugin, though its amounts and place did not."""
        return False

    def pre_quota_update(
        self, old: QuotaInfo | None, new: QuotaInfo | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        """Called before a quota is created (no `old`), changed or deleted (no `new`)."""

    def post_quota_update(
        self, old: QuotaInfo | None, new: QuotaInfo | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        """Called afterwards, with the same arguments."""

    def on_pod_updated(self, quota_name: str, old: Pod | None, new: Pod | None) -> None:
        """Called when a pod that has a node is added to, changed in, or removed from a quota."""

    def update_quota_status(self, quota: ElasticQuota, updated: ElasticQuota | None) -> ElasticQuota | None:
        """Return a quota to write, given what is stored and what would be written (None: nothing)."""
        return None

    def check_pod(self, quota_name: str, pod: Pod) -> str:
        """Return why a pod may not be scheduled in a quota, or nothing."""
        return ""

    def on_batch_reset_begin(self) -> None:
        """Called before all quotas of a tree are replayed as if they were created."""

    def on_batch_reset_end(self) -> None:
        """Called afterwards."""


HookFactory = Callable[[QuotaReader, str, str], QuotaHook]
"""Creates a hook plugin for a tree, given its key and arguments; may raise."""

_FACTORIES: dict[str, HookFactory] = {}


def register(key: str, factory: HookFactory) -> None:
    """Make a factory available under a key."""
    _FACTORIES[key] = factory


class HookError(ValueError):
    """Hook plugins could not be created; the message is Koordinator's."""


@dataclass(frozen=True)
class NamedHook:
    """A hook plugin with its key, measured."""

    key: str
    plugin: QuotaHook

    def call(self, operation: str, *args: Any) -> Any:
        """Call a method and measure it; the operation is named as in Koordinator's metric."""
        began = time.perf_counter()
        try:
            return getattr(self.plugin, _METHODS[operation])(*args)
        finally:
            HOOK_LATENCY.labels(self.key, operation).observe(time.perf_counter() - began)


_METHODS: Final[Mapping[str, str]] = {
    "is_quota_updated": "is_quota_updated",
    "pre_quota_update": "pre_quota_update",
    "post_quota_update": "post_quota_update",
    "on_pod_update": "on_pod_updated",
    "update_quota_status": "update_quota_status",
    "check_pod": "check_pod",
}


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
        for found in entry_points(group=GROUP, name=key):
            _FACTORIES[key] = found.load()
    return _FACTORIES.get(key)
