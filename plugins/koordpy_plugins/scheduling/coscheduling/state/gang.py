"""A gang: its settings, and its pods by what has become of them.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/gang.go`.
"""

from collections.abc import Collection
from datetime import datetime

from koordpy.api.core import Pod
from koordpy.api.gang.settings import (
    ONCE_SATISFIED,
    ONLY_WAITING,
    STRICT,
    WAITING_AND_RUNNING,
    GangSettings,
    GangSource,
)

from .group import GangGroup

Pods = dict[str, Pod]
"""Pods by `namespace/name`."""


class Gang:
    """One gang. Every pod is in `children`, and in one of `pending`, `waiting` and `bound` at most.

    `waiting` are pods in Permit and those that are being bound; `bound` has finished pods too, as long as
    they exist. Before anything has described the gang it is not initialized: it cannot be scheduled.
    """

    __slots__ = ("bound", "children", "group", "id", "pending", "seen_at", "settings", "source", "waiting")

    def __init__(self, id_: str, seen_at: datetime) -> None:
        self.id = id_
        self.seen_at = seen_at
        self.settings = GangSettings(0, 0, 0.0, (id_,))
        self.source: GangSource | None = None
        """What described the gang; None as long as it is not initialized."""
        self.group = GangGroup()
        self.children: Pods = {}
        self.pending: Pods = {}
        self.waiting: Pods = {}
        self.bound: Pods = {}

    @property
    def is_initialized(self) -> bool:
        """Whether it is known how the gang is scheduled."""
        return self.source is not None

    @property
    def is_from_pods(self) -> bool:
        """Whether the gang ends with its last pod, because no PodGroup describes it."""
        return self.source is not GangSource.POD_GROUP

    @property
    def is_strict(self) -> bool:
        """Whether a member that cannot be scheduled releases those that wait."""
        return self.settings.mode == STRICT

    @property
    def needs_no_minimum(self) -> bool:
        """Whether members are scheduled by themselves, because the group was satisfied before."""
        return self.settings.match_policy == ONCE_SATISFIED and self.group.once_satisfied

    @property
    def has_enough_children(self) -> bool:
        """Whether the gang is initialized and has as many pods as it needs."""
        return self.is_initialized and len(self.children) >= self.settings.min_member

    def describe(self, settings: GangSettings) -> None:
        """Set how the gang is scheduled."""
        self.settings, self.source = settings, settings.source

    def is_satisfied(self, placed: Collection[str] = ()) -> bool:
        """Return whether the gang may be bound, if the pending pods with the UIDs in `placed` find nodes."""
        if not self.is_initialized:
            return False
        count = len(self.waiting)
        if placed:
            count += sum(pod.metadata.uid in placed for pod in self.pending.values())
        match self.settings.match_policy:
            case policy if policy == ONLY_WAITING:
                return count >= self.settings.min_member
            case policy if policy == WAITING_AND_RUNNING:
                return count + len(self.bound) >= self.settings.min_member
        return count >= self.settings.min_member or self.group.once_satisfied

    @property
    def missing(self) -> int:
        """How many more pods have to find nodes until the gang has its minimum; not positive if none."""
        has = len(self.waiting)
        if self.settings.match_policy == WAITING_AND_RUNNING:
            has += len(self.bound)
        return self.settings.min_member - has

    # --- pods ------------------------------------------------------------------------------------

    def put(self, pod: Pod) -> None:
        """Add or replace a pod."""
        key = pod.metadata.key
        self.children[key] = pod
        if not pod.spec.node_name and key not in self.waiting:
            self.pending[key] = pod

    def discard(self, pod_key: str) -> None:
        """Remove a pod."""
        self.children.pop(pod_key, None)
        self.pending.pop(pod_key, None)
        self.group.drop_representative(pod_key)
        self._no_longer_waits(pod_key)
        self.bound.pop(pod_key, None)

    def assume(self, pod: Pod) -> None:
        """Record that a pod has a node and waits to be bound."""
        self.waiting.setdefault(pod.metadata.key, pod)
        self.pending.pop(pod.metadata.key, None)

    def forget(self, pod: Pod) -> None:
        """Record that a pod has lost its node again."""
        key = pod.metadata.key
        if key in self.waiting:
            child = self.children.get(key)
            if child is not None:
                self.pending[key] = child
            self._no_longer_waits(key)

    def bind(self, pod: Pod) -> None:
        """Record that a pod is bound."""
        key = pod.metadata.key
        self._no_longer_waits(key)
        self.pending.pop(key, None)
        self.group.drop_representative(key)
        self.bound[key] = pod
        self.group.once_satisfied = True

    def unbind(self, pod_key: str) -> None:
        """Record that a pod which was to be bound has no node after all."""
        child = self.children.get(pod_key)
        if child is not None and not child.spec.node_name and self.bound.pop(pod_key, None) is not None:
            self.pending[pod_key] = child

    def _no_longer_waits(self, pod_key: str) -> None:
        self.waiting.pop(pod_key, None)
        if not self.waiting:
            self.group.remove_waiting(self.id)
