"""Pods of gangs between the choice of a node and the binding: they wait for each other in Permit.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/core.go` (`Permit`, `AllowGangGroup`,
`Unreserve`, `GetGangBindingInfo`).
"""

from collections.abc import Iterable
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.auditor import RecordType
from koordpy.scheduling.interface.failure import JOB_REJECT
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status

from .state.context import SUCCEEDED, ContextHolder
from .state.gang import Gang
from .state.gang_cache import GangCache

GROUP_ID: Final = "internal.scheduling.koordinator.sh/bind-gang-group-id"
MEMBER_COUNT: Final = "internal.scheduling.koordinator.sh/bind-gang-member-count"
DEPRECATED_GROUP_ID: Final = "scheduling.koordinator.sh/bind-gang-group-id"
DEPRECATED_MEMBER_COUNT: Final = "scheduling.koordinator.sh/bind-gang-member-count"
NAMES: Final = (GROUP_ID, MEMBER_COUNT, DEPRECATED_GROUP_ID, DEPRECATED_MEMBER_COUNT)


class GangWaiting:
    """Makes pods wait until their whole group has nodes, and lets all of them go, or none."""

    def __init__(self, name: str, handle: Handle, cache: GangCache, holder: ContextHolder) -> None:
        self._name, self._handle, self._cache, self._holder = name, handle, cache, holder
        self._held: dict[str, dict[str, None]] = {}
        """The UIDs of pods that were told to wait, by the ID of their gang, until bound or rolled back."""

    def permit(self, pod: Pod) -> Status:
        """Let a pod wait, or let its whole group go if this was the last one it needed."""
        id_ = gang_id(pod)
        if not id_:
            return SUCCESS
        gang = self._cache.gangs.get(id_)
        if gang is None:
            return Status.unschedulable("Gang not found")
        gang.assume(pod)
        for member in gang.settings.group:
            other = self._cache.gangs.get(member)
            if other is None or not other.is_satisfied():
                gang.group.add_waiting()
                self._held.setdefault(id_, {})[pod.metadata.uid] = None
                return Status.wait(gang.settings.wait_seconds)
        self._allow(gang)
        self._holder.end(SUCCEEDED)
        return SUCCESS

    def is_in_vain(self, pod: Pod) -> bool:
        """Return whether a pod would wait in Permit for a gang of its group that does not exist."""
        gang = self._cache.gang_of(pod)
        return gang is not None and any(id_ not in self._cache.gangs for id_ in gang.settings.group)

    def _allow(self, gang: Gang) -> None:
        self._handle.auditor.gang_result(gang.settings.group_id, RecordType.SCHEDULED)
        group = gang.settings.group
        if not gang.group.binding_members:
            waiting = self._cache.waiting_pods(group)
            gang.group.binding_members = frozenset(pod.metadata.uid for pod in waiting)
        for uid in self._held_of(group):
            waiting_pod = self._handle.waiting_pods.get(uid)
            if waiting_pod is not None:
                waiting_pod.allow(self._name)

    def unreserve(self, pod: Pod, *, is_moved: bool = False) -> None:
        """Take back what `permit` recorded; in a Strict gang the others that wait are rejected as well.

        Not if the pod `is_moved` to another node at once, or was placed only to see whether its group fits.
        """
        self._release(pod)
        gang = self._cache.gang_of(pod)
        if gang is None:
            return
        gang.forget(pod)
        if is_moved or self._is_being_planned(gang):
            return
        if gang.is_strict and not gang.needs_no_minimum:
            reason = f'Gang "{gang.id}" gets rejected due to Pod "{pod.metadata.name}" in Unreserve'
            self.reject(gang.settings.group, reason)

    def post_bind(self, pod: Pod) -> None:
        """Record that a pod is bound."""
        self._release(pod)
        gang = self._cache.gang_of(pod)
        if gang is not None:
            gang.bind(pod)

    def reject(self, gangs: Iterable[str], message: str, plugin: str = JOB_REJECT) -> None:
        """Reject the pods of gangs that wait, in the name of a plugin that decides on their nominations."""
        for uid in self._held_of(gangs):
            waiting_pod = self._handle.waiting_pods.get(uid)
            if waiting_pod is not None:
                waiting_pod.reject(plugin, message)

    def annotate(self, binding: Binding) -> None:
        """Add to a binding how many pods of the group are bound together, if there are several."""
        pod = binding.pod
        gang = self._cache.gang_of(pod)
        members = frozenset[str]() if gang is None else gang.group.binding_members
        if gang is None or len(members) <= 1 or pod.metadata.uid not in members:
            for name in NAMES:
                binding.annotations.pop(name, None)
                if name in pod.metadata.annotations:
                    binding.dropped.add(name)
            return
        id_, count = gang.settings.group_id, str(len(members))
        binding.annotations.update(
            {
                GROUP_ID: id_,
                MEMBER_COUNT: count,
                DEPRECATED_GROUP_ID: id_,
                DEPRECATED_MEMBER_COUNT: count,
            }
        )

    def _is_being_planned(self, gang: Gang) -> bool:
        context = self._holder.current
        return not self._handle.is_scheduler and context is not None and gang.id in context.gangs

    def _held_of(self, gangs: Iterable[str]) -> list[str]:
        return [uid for id_ in gangs for uid in self._held.get(id_, ())]

    def _release(self, pod: Pod) -> None:
        id_ = gang_id(pod)
        held = self._held.get(id_)
        if held is not None:
            held.pop(pod.metadata.uid, None)
            if not held:
                del self._held[id_]
