"""Hook plugins of quotas: they follow quotas and their pods, may refuse pods, and add to quotas' status.

A package names a factory by an entry point of the group `koordpy.quotahooks`; the argument `hookPlugins` of
ElasticQuota creates plugins with it. Source: Koordinator,
`pkg/scheduler/plugins/elasticquota/core/hook_plugin.go`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.resource_list import Quantities

GROUP: Final = "koordpy.quotahooks"
"""The entry point group of factories; the name of an entry point is the factory's key."""


class QuotaRecord(Protocol):
    """What a quota may use, requests and uses; a live record, to be read at once and never changed.

    `request` and `used` include the children's; `self_request` and `self_used` are its own pods'. A quota
    that is being created or changed comes with its new place and amounts, and without requests and usage.
    """

    @property
    def name(self) -> str:
        """The quota."""
        ...

    @property
    def parent_name(self) -> str:
        """Its parent."""
        ...

    @property
    def tree(self) -> str:
        """The id of its tree, empty for the default tree."""
        ...

    @property
    def is_parent(self) -> bool:
        """Whether it is labelled as one that has children."""
        ...

    @property
    def allow_lent_resource(self) -> bool:
        """Whether others may borrow what it does not use."""
        ...

    @property
    def max(self) -> Quantities:
        """What it may use at most."""
        ...

    @property
    def min(self) -> Quantities:
        """What it is guaranteed."""
        ...

    @property
    def shared_weight(self) -> Quantities:
        """Its weight in what is left."""
        ...

    @property
    def request(self) -> Quantities:
        """What it requests."""
        ...

    @property
    def child_request(self) -> Quantities:
        """What its pods and children request, without its own minimum."""
        ...

    @property
    def self_request(self) -> Quantities:
        """What its own pods request."""
        ...

    @property
    def non_preemptible_request(self) -> Quantities:
        """What pods that cannot be preempted request."""
        ...

    @property
    def used(self) -> Quantities:
        """What its pods with a node request."""
        ...

    @property
    def self_used(self) -> Quantities:
        """That of its own pods."""
        ...

    @property
    def non_preemptible_used(self) -> Quantities:
        """That of pods that cannot be preempted."""
        ...

    @property
    def runtime(self) -> Quantities:
        """What it may use now, as of its last refresh."""
        ...

    @property
    def allocated(self) -> Quantities:
        """What is allocated to it and its children (gate ElasticQuotaGuaranteeUsage)."""
        ...

    @property
    def guaranteed(self) -> Quantities:
        """The larger of minimum and allocated (gate ElasticQuotaGuaranteeUsage)."""
        ...

    def has(self, pod: Pod) -> bool:
        """Return whether a pod counts in this quota."""
        ...

    def is_assigned(self, pod: Pod | None) -> bool:
        """Return whether a pod counts in this quota as one that has a node."""
        ...

    def assigned_pods(self) -> Iterator[Pod]:
        """Yield its own pods that have a node."""
        ...


class QuotaReader(Protocol):
    """What hook plugins may read of their tree."""

    def get(self, name: str) -> QuotaRecord | None:
        """Return a quota by name."""
        ...

    def children_of(self, name: str) -> Sequence[QuotaRecord]:
        """Return the children of a quota, by name."""
        ...


@dataclass
class QuotaUpdateState:
    """What hook plugins keep between `pre_quota_update` and `post_quota_update` of one change.

    All plugins share it, so keys should begin with the plugin's own.
    """

    storage: dict[str, Any] = field(default_factory=dict)


class QuotaHook:
    """A hook plugin of one quota tree; the defaults do nothing. It must not change what it is given.

    Its methods are called while the tree is changed: they must be fast and must not block. An exception is
    logged and counted, and is taken for a refusal by `check_pod`, for the default of the others.

    When the trees are computed anew (at the start, and after a change that they cannot follow step by step),
    new plugins are created. They see all quotas between `on_batch_reset_begin` and `on_batch_reset_end`, as
    if these were created, then all pods that have a node: what a plugin knows has to follow from that.
    """

    def is_quota_updated(self, old: QuotaRecord, new: QuotaRecord, quota: ElasticQuota) -> bool:
        """Return whether a quota changed for this plugin, though its amounts and place did not."""
        return False

    def pre_quota_update(
        self, old: QuotaRecord | None, new: QuotaRecord | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        """Called before a quota is created (no `old`), changed or deleted (no `new`).

        A quota that gets another parent is deleted and created.
        """

    def post_quota_update(
        self, old: QuotaRecord | None, new: QuotaRecord | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        """Called afterwards, with the same arguments."""

    def on_pod_updated(self, quota_name: str, old: Pod | None, new: Pod | None) -> None:
        """Called when a pod with a node is added to (no `old`), changed in, or leaves a quota (no `new`).

        A pod that is being scheduled counts as one with a node from its filter call on; it leaves again if it
        is not bound.
        """

    def update_quota_status(self, quota: ElasticQuota, updated: ElasticQuota | None) -> ElasticQuota | None:
        """Return a quota to write, given what is stored and what would be written (None: nothing).

        None leaves it at that. What is returned is given to the next plugin as `updated`.
        """
        return None

    def check_pod(self, quota_name: str, pod: Pod) -> str:
        """Return why a pod may not be scheduled in a quota, or nothing.

        Called after the plugin's own checks, again before a pod is bound, and to find out whether a pod that
        was refused would pass now. The pod itself is not counted then.
        """
        return ""

    def on_batch_reset_begin(self) -> None:
        """Called before all quotas of the tree are shown as if they were created."""

    def on_batch_reset_end(self) -> None:
        """Called afterwards."""


HookFactory = Callable[[QuotaReader, str, str], QuotaHook]
"""Creates a hook plugin for a tree, given its key and arguments; may raise. A class may be one."""
