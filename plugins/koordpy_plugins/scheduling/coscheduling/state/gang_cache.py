"""The gangs of a cluster: pods, reserve pods, PodGroups and Kubernetes' own groups, event by event.

Some of it is history that no object shows any more (a group that was satisfied once, the first pod that
described a gang), so this is no derived state. An event costs what it touches, and everything of a gang is
gone when its pods and its PodGroup are.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/gang_cache.go`.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id, gang_name, names_pod_group
from koordpy.api.gang.settings import GangDefaults, settings_of_pod, settings_of_pod_group
from koordpy.api.koordinator import PodGroup
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.lib.clock import Clock
from koordpy.scheduling.interface.auditor import RecordType
from koordpy.scheduling.interface.handle import Handle

from .gang import Gang
from .group import GangGroup
from .kubernetes_groups import KubernetesGroups

log = logging.getLogger(__name__)

PENDING_PHASES = ("", "Pending", "PreScheduling", "Scheduling")
"""The phases of a PodGroup that has not been scheduled yet."""


class GangCache:
    """All gangs, by ID, and all groups of gangs that are known to belong together, by group ID."""

    def __init__(self, handle: Handle, defaults: GangDefaults) -> None:
        self._handle, self._defaults = handle, defaults
        self._clock: Clock = handle.clock
        self.gangs: dict[str, Gang] = {}
        self.groups: dict[str, GangGroup] = {}
        self._groups_of: dict[str, set[str]] = defaultdict(set)
        """The IDs of the groups that name a gang, by its ID."""
        self._kubernetes = KubernetesGroups(handle, self._kubernetes_group_changed)
        handle.on(PodGroup, self._pod_group_came, self._pod_group_changed, self._pod_group_went)
        handle.on(Pod, self.add_pod, self.update_pod, self.delete_pod)
        handle.on(Reservation, self._add_reservation, self._update_reservation, self._delete_reservation)

    # --- reading ---------------------------------------------------------------------------------

    def gang_of(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod."""
        return self.gangs.get(gang_id(pod))

    def known(self, gangs: Iterable[str]) -> Iterator[Gang]:
        """Yield the gangs with these IDs that exist."""
        for id_ in gangs:
            gang = self.gangs.get(id_)
            if gang is not None:
                yield gang

    def waiting_pods(self, gangs: Iterable[str]) -> list[Pod]:
        """Return the pods of gangs that wait to be bound."""
        return [pod for gang in self.known(gangs) for pod in gang.waiting.values()]

    def count_waiting(self, gangs: Iterable[str]) -> int:
        """Return how many pods of gangs wait to be bound."""
        return sum(len(gang.waiting) for gang in self.known(gangs))

    # --- pods ------------------------------------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """Handle a new pod."""
        gang = self._put(pod)
        if gang is None or pod.spec.node_name:
            return
        auditor = self._handle.auditor
        if auditor.enabled:
            auditor.gang_gated(gang.settings.group_id, pod, bool(pod.spec.scheduling_gates))
        if gang.has_enough_children:
            self._became_eligible(gang, pod)

    def update_pod(self, old: Pod, pod: Pod) -> None:
        """Handle a change of a pod; a finished pod stays as it is until it is deleted."""
        before = gang_id(old)
        if before and before != gang_id(pod):
            self.delete_pod(old)
        if not gang_name(pod) or pod.is_terminal:
            return
        auditor = self._handle.auditor
        gated = bool(pod.spec.scheduling_gates)
        if auditor.enabled and gated != bool(old.spec.scheduling_gates):
            gang = self.gang_of(pod)
            if gang is not None:
                auditor.gang_gated(gang.settings.group_id, pod, gated)
        self._put(pod)

    def delete_pod(self, pod: Pod) -> None:
        """Handle the end of a pod."""
        gang = self.gang_of(pod)
        if gang is None:
            return
        gang.discard(pod.metadata.key)
        if gang.is_from_pods and not gang.children:
            self._delete(gang)

    def _put(self, pod: Pod) -> Gang | None:
        id_ = gang_id(pod)
        if not id_:
            return None
        gang = self._gang(id_)
        if self._kubernetes.describe(pod):
            self._kubernetes.joined(pod)
            if not gang.is_initialized:
                self._describe_by_kubernetes(gang, pod)
        elif not names_pod_group(pod):
            if not gang.is_initialized:
                settings = settings_of_pod(pod, id_, self._defaults)
                if settings is not None:
                    gang.describe(settings)
            if self._attach(gang) and not pod.spec.node_name:
                self._handle.auditor.gang_added(gang.settings.group_id, gang.settings.min_member)
        gang.put(pod)
        if pod.spec.node_name:
            gang.bind(pod)
        return gang

    # --- reserve pods ----------------------------------------------------------------------------

    def _add_reservation(self, reservation: Reservation) -> None:
        pod = _reserve_pod(reservation)
        if pod is not None:
            self.add_pod(pod)

    def _update_reservation(self, old: Reservation, new: Reservation) -> None:
        before, after = _reserve_pod(old), _reserve_pod(new)
        if before is not None and after is not None:
            self.update_pod(before, after)
        elif after is not None:
            self.add_pod(after)
        elif before is not None:
            self.delete_pod(before)

    def _delete_reservation(self, reservation: Reservation) -> None:
        pod = _reserve_pod(reservation)
        if pod is not None:
            self.delete_pod(pod)

    # --- PodGroups -------------------------------------------------------------------------------

    def _pod_group_came(self, pod_group: PodGroup) -> None:
        """Handle a new PodGroup; at the start its pods may have been listed before it."""
        self.add_pod_group(pod_group)
        _stays_satisfied(self.gangs[pod_group.metadata.key])

    def _pod_group_changed(self, old: PodGroup, pod_group: PodGroup) -> None:
        """Handle a change of a PodGroup, such as of its status."""
        self.update_pod_group(old, pod_group)
        gang = self.gangs.get(pod_group.metadata.key)
        if gang is not None:
            _stays_satisfied(gang)

    def _pod_group_went(self, pod_group: PodGroup) -> None:
        """Handle the end of a PodGroup, and put the pods that it leaves into a gang that nothing describes.

        In Koordinator each of them is forgotten until it changes, although the PodGroup may come again.
        """
        gang = self.gangs.get(pod_group.metadata.key)
        self.delete_pod_group(pod_group)
        for pod in () if gang is None else list(gang.children.values()):
            self._put(pod)

    def add_pod_group(self, pod_group: PodGroup) -> None:
        """Handle a new PodGroup."""
        gang = self._gang(pod_group.metadata.key)
        self._describe(gang, pod_group)
        if pod_group.status.phase in PENDING_PHASES:
            self._handle.auditor.gang_added(gang.settings.group_id, gang.settings.min_member)
        if gang.has_enough_children and not self._activate_one(gang):
            return  # as in Koordinator, the gang keeps a group of its own
        self._attach(gang)

    def update_pod_group(self, old: PodGroup, pod_group: PodGroup) -> None:
        """Handle a change of a PodGroup."""
        gang = self.gangs.get(pod_group.metadata.key)
        if gang is None:
            return
        phases = old.status.phase in PENDING_PHASES, pod_group.status.phase in PENDING_PHASES
        if phases == (True, False):
            self._handle.auditor.gang_deleted(gang.settings.group_id)
        had_enough = gang.has_enough_children
        self._describe(gang, pod_group)
        if gang.has_enough_children and not had_enough and not self._activate_one(gang):
            return
        self._attach(gang)

    def delete_pod_group(self, pod_group: PodGroup) -> None:
        """Handle the end of a PodGroup: the gang ends, whatever pods it has."""
        gang = self.gangs.get(pod_group.metadata.key)
        if gang is not None:
            gang.group.remove_waiting(gang.id)
            self._delete(gang)

    def _describe(self, gang: Gang, pod_group: PodGroup) -> None:
        before = gang.settings.group_id
        gang.describe(settings_of_pod_group(pod_group, gang.id, self._defaults))
        if gang.settings.group_id != before:
            self._handle.auditor.gang_deleted(before)

    # --- groups of Kubernetes --------------------------------------------------------------------

    def _kubernetes_group_changed(self, id_: str, pod: Pod) -> None:
        """Handle a new, changed or deleted object that describes the gang of a pod."""
        gang = self.gangs.get(id_)
        if gang is None:
            return
        had_enough, before = gang.has_enough_children, gang.settings
        self._describe_by_kubernetes(gang, pod)
        _stays_satisfied(gang)
        if gang.has_enough_children and not (had_enough and gang.settings == before):
            for member in list(gang.pending.values()):
                self._handle.activate(member)

    def _describe_by_kubernetes(self, gang: Gang, pod: Pod) -> None:
        settings = self._kubernetes.settings(pod)
        if settings is None:
            gang.source = None
            return
        before = gang.settings.group_id
        gang.describe(settings)
        if settings.group_id != before:
            self._handle.auditor.gang_deleted(before)
        if self._attach(gang) and not pod.spec.node_name:
            self._handle.auditor.gang_added(settings.group_id, settings.min_member)

    # --- gangs and groups ------------------------------------------------------------------------

    def _gang(self, id_: str) -> Gang:
        gang = self.gangs.get(id_)
        if gang is None:
            gang = self.gangs[id_] = Gang(id_, self._clock.now())
        return gang

    def _attach(self, gang: Gang) -> bool:
        """Let a gang without a shared group join its group; return whether the group is new."""
        if gang.group.is_initialized:
            return False
        settings = gang.settings
        group = self.groups.get(settings.group_id)
        is_new = group is None
        if group is None:
            group = GangGroup(settings.group_id, settings.group, is_initialized=True)
            self.groups[group.id] = group
            for id_ in group.gangs:
                self._groups_of[id_].add(group.id)
        group.attached += 1
        gang.group = group
        return is_new

    def _delete(self, gang: Gang) -> None:
        """Delete a gang, and the groups of which no gang is left."""
        del self.gangs[gang.id]
        self._kubernetes.ended(gang.id)
        gang.group.attached -= 1
        ended = {id_ for id_ in self._groups_of.get(gang.id, ()) if self._is_abandoned(self.groups[id_])}
        if not any(id_ in self.gangs for id_ in gang.settings.group):
            ended.add(gang.group.id)
            self._handle.auditor.gang_deleted(gang.settings.group_id)
        for id_ in ended:
            self._delete_group(id_)
        if gang.group.attached <= 0 and self.groups.get(gang.group.id) is not gang.group:
            gang.group.clear_waiting()

    def _is_abandoned(self, group: GangGroup) -> bool:
        return group.attached <= 0 and not any(id_ in self.gangs for id_ in group.gangs)

    def _delete_group(self, id_: str) -> None:
        group = self.groups.pop(id_, None)
        if group is None:
            return
        for gang in group.gangs:
            groups = self._groups_of.get(gang)
            if groups is not None:
                groups.discard(id_)
                if not groups:
                    del self._groups_of[gang]
        self._handle.auditor.gang_deleted(id_)

    # --- the queue -------------------------------------------------------------------------------

    def _became_eligible(self, gang: Gang, pod: Pod) -> None:
        auditor = self._handle.auditor
        if auditor.enabled:
            auditor.gang_happened(gang.settings.group_id, pod, RecordType.GANG_SATISFIED, gang.id)
        if self._handle.is_scheduler:
            self._handle.activate(pod)  # beside kube-scheduler its gate is removed, and `waking` retries it

    def _activate_one(self, gang: Gang) -> bool:
        """Activate a pending pod of a gang that has enough pods now; return whether there is one.

        Without a queue, in a what-if, nothing is activated.
        """
        pod = next(iter(gang.pending.values()), None)
        if pod is None or not self._handle.queue:
            return False
        self._became_eligible(gang, pod)
        return True


def _stays_satisfied(gang: Gang) -> None:
    """Note in the group that a gang has just joined that it was satisfied before.

    Koordinator, which lists PodGroups before pods, does so only once a bound pod changes.
    """
    if gang.bound:
        gang.group.once_satisfied = True


def _reserve_pod(reservation: Reservation) -> Pod | None:
    """Return the reserve pod of a Reservation that is in a gang."""
    template = reservation.spec.template
    metas = (reservation.metadata,) if template is None else (reservation.metadata, template.metadata)
    if not any(gang_name(Pod(metadata=meta)) for meta in metas):
        return None
    try:
        pod = new_reserve_pod(reservation)
    except QuantityError as error:
        log.warning("reservation %s is in no gang: %s", reservation.metadata.name, error)
        return None
    return pod if gang_name(pod) else None
