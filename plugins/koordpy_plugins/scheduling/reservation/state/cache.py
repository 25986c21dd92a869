"""Which reservations there are, where, and which pods use them: derived from objects, whatever their order.

Reservations come from their own store and from pods that act as reservations; an annotation of a pod names
the reservation that it uses. A pod that is seen before its reservation waits here for it. Assumptions (a
reserve pod that was reserved, a pod that is about to be bound) stand until an event confirms them or they are
taken back.

One cache serves all profiles of a process: what one of them takes, the others see. Source: Koordinator,
`pkg/scheduler/plugins/reservation/cache.go`, `eventhandler.go`, `pod_eventhandler.go`.
"""

import logging
from collections.abc import Callable, Collection, Sequence

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.api.quantity import ZERO, QuantityError
from koordpy.api.reservation import Reservation, validate
from koordpy.api.scheme import DecodeError
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo

from .owner_index import OwnerIndex

log = logging.getLogger(__name__)


class UnknownReservation(LookupError):
    """A pod cannot be assumed: the reservation is gone, going, or being given to another pod."""


class ReservationCache(DerivedState):
    """The reservations of a cluster.

    Derived from Reservations and pods, but for assumptions. What is matchable stays so until the Reservation
    itself changes, even when its pods use it up.
    """

    one_per_cluster = True
    settled_by = (Reservation,)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.infos: dict[str, ReservationInfo] = {}
        self.on_node: dict[str, dict[str, ReservationInfo]] = {}
        """Everything placed, by node and UID."""
        self.matchable: dict[str, dict[str, ReservationInfo]] = {}
        """What pods may use, by node and UID, as of the last time the reservation itself changed."""
        self.allocated_on: dict[str, set[str]] = {}
        """UIDs of reservations that have pods and can take more, by node."""
        self.assumed: set[str] = set()
        """UIDs of Reservations that are about to be bound."""
        self._current: dict[str, str] = {}
        self._names: dict[str, dict[str, None]] = {}
        self._users: dict[str, dict[str, Pod]] = {}
        self._used: dict[str, str] = {}
        self._used_before: dict[str, str] = {}
        """The reservations that pods used before a Reservation was assumed to take them over."""
        self._presumed: set[str] = set()
        self.owners = OwnerIndex()
        """The matchable ones, by their owners."""
        self._changed: list[Callable[[str], None]] = []
        self._placed: list[Callable[[ReservationInfo], None]] = []
        self._removed: list[Callable[[str], None]] = []

        _ = cluster.nodes  # current before the columns that follow from the events below
        self.reservations = self.follow(
            Reservation, self.put, lambda _, new: self.put(new), lambda gone: self.remove(gone.metadata.uid)
        )
        """All Reservations, placed or not."""
        self.follow(Pod, self.add_pod, self.update_pod, self.delete_pod)

    def snapshot(self) -> Snapshot:
        """Return what there is and what is matchable, by UID, and which reservation each pod uses."""
        infos = {
            uid: {
                "node": info.node_name,
                "allocatable": info.allocatable,
                "allocated": {
                    name: amount for name, amount in (info.allocated or {}).items() if amount > ZERO
                },
                "available": dict(info.available),
                "pods": sorted(info.assigned),
                "can be matched": info.is_matchable,
                "matchable": uid in self.matchable.get(info.node_name, {}),
            }
            for uid, info in self.infos.items()
        }
        on_node = {name: sorted(infos) for name, infos in self.on_node.items()}
        allocated = {name: sorted(uids) for name, uids in self.allocated_on.items()}
        return {
            "reservations": infos,
            "nodes": on_node,
            "allocated": allocated,
            "users": dict(self._used),
            "indexed by owner": len(self.owners),
        }

    def unconfirmed(self) -> Collection[str]:
        """Return the UIDs of Reservations about to be bound, and of pods that are about to use one."""
        return self.assumed | self._presumed | self._used_before.keys()

    def on_change(self, changed: Callable[[str], None]) -> None:
        """Call a handler with the name of each node whose reservations changed; known ones are replayed."""
        self._changed.append(changed)
        for node_name in self.on_node:
            changed(node_name)

    def on_reservations(
        self, placed: Callable[[ReservationInfo], None], removed: Callable[[str], None]
    ) -> None:
        """Call handlers with each reservation that is new or changed, and with the UID of one that is gone.

        Known ones are replayed.
        """
        self._placed.append(placed)
        self._removed.append(removed)
        for info in self.infos.values():
            placed(info)

    def named(self, name: str) -> Sequence[ReservationInfo]:
        """Return the reservations of a name: a Reservation, and pods of that name that act as one."""
        return [self.infos[uid] for uid in self._names.get(name, ())]

    def used_by(self, pod: Pod, node_name: str) -> ReservationInfo | None:
        """Return the reservation on a node that a pod uses, if it is still matchable."""
        return self.matchable.get(node_name, {}).get(self._used.get(pod.metadata.uid, ""))

    def occupies(self, info: ReservationInfo) -> bool:
        """Return whether a reservation holds resources of its node beside what pods there hold."""
        reservation = info.reservation
        return reservation is not None and (reservation.is_available or info.uid in self.assumed)

    # --- reservations ----------------------------------------------------------------------------

    def put(self, reservation: Reservation) -> None:
        """Take in a Reservation as the API server has it."""
        uid = reservation.metadata.uid
        if reservation.is_active:
            if validate(reservation):
                return
            self.assumed.discard(uid)
            self._upsert(reservation)
        elif reservation.is_terminated or uid not in self.assumed:
            self.remove(uid)

    def assume(self, reservation: Reservation) -> None:
        """Count a Reservation on the node in its status before the API server says so."""
        self.assumed.add(reservation.metadata.uid)
        self._upsert(reservation)

    def forget(self, uid: str) -> None:
        """Take back an assumption, if it is still one."""
        if uid in self.assumed:
            self.remove(uid)

    def remove(self, uid: str) -> None:
        """Forget a reservation; the pods that use it wait for its return."""
        self.assumed.discard(uid)
        self._current.pop(uid, None)
        info = self.infos.pop(uid, None)
        if info is None:
            return
        self._names[info.name].pop(uid, None)
        if not self._names[info.name]:
            del self._names[info.name]
        self._displace(info)
        self._report_change(info.node_name)
        for removed in self._removed:
            removed(uid)

    def _upsert(self, subject: Reservation | Pod, user: AssignedPod | None = None) -> None:
        uid, left = subject.metadata.uid, ""
        try:
            info = self.infos.get(uid)
            if info is None:
                info = ReservationInfo(subject)
                for pod in self._users.get(uid, {}).values():
                    info.assign(AssignedPod.of(pod))
                self.infos[uid] = info
            else:
                left = info.node_name
                self._displace(info)
                info.update(subject)
        except QuantityError as error:
            log.warning("reservation %s: %s", subject.metadata.name, error)
            self._report_change(left)
            return
        if user is not None:
            info.assign(user)
        self._names.setdefault(info.name, {})[uid] = None
        if left != info.node_name:  # otherwise one report will do, when the reservation is in place again
            self._report_change(left)
        if info.node_name:
            self._place(info)

    def _place(self, info: ReservationInfo) -> None:
        node_name, uid = info.node_name, info.uid
        self.on_node.setdefault(node_name, {})[uid] = info
        if info.is_matchable:
            self.matchable.setdefault(node_name, {})[uid] = info
            self.owners.add(info)
            if info.assigned:
                self.allocated_on.setdefault(node_name, set()).add(uid)
        self._report_change(node_name)
        for placed in self._placed:
            placed(info)

    def _displace(self, info: ReservationInfo) -> None:
        node_name, uid = info.node_name, info.uid
        for index in (self.on_node, self.matchable):
            _discard(index, node_name, uid)
        self.owners.discard(uid)
        self._unallocate(node_name, uid)

    def _unallocate(self, node_name: str, uid: str) -> None:
        allocated = self.allocated_on.get(node_name)
        if allocated is not None:
            allocated.discard(uid)
            if not allocated:
                del self.allocated_on[node_name]

    def _report_change(self, node_name: str) -> None:
        for changed in self._changed if node_name else ():
            changed(node_name)

    # --- the pods that use them ------------------------------------------------------------------

    def assume_pod(self, uid: str, pod: Pod) -> ReservationInfo:
        """Count a pod in a reservation before the API server says so. Raises UnknownReservation.

        One that is for a single pod is not given to a second one while the first is on its way. Once the
        first is seen bound, Koordinator's rule holds: until the Reservation itself changes it is matchable.
        """
        info = self.infos.get(uid)
        if info is None:
            raise UnknownReservation("cannot find target reservation")
        if info.is_terminating:
            raise UnknownReservation("target reservation is terminating")
        is_unbound = not pod.spec.node_name
        if is_unbound and info.is_allocate_once and not self._presumed.isdisjoint(info.assigned):
            raise UnknownReservation("target reservation is being allocated to another pod")
        self._use(uid, pod)
        if is_unbound:
            self._presumed.add(pod.metadata.uid)
        return info

    def forget_pod(self, uid: str, pod_uid: str) -> None:
        """Take a pod out of a reservation."""
        self._stop_using(uid, pod_uid)

    def reservation_of(self, pod_uid: str) -> str:
        """Return the UID of the reservation that a pod uses, there or not; empty if it uses none."""
        return self._used.get(pod_uid, "")

    def _use(self, uid: str, pod: Pod) -> None:
        self._users.setdefault(uid, {})[pod.metadata.uid] = pod
        before = self._used.get(pod.metadata.uid, uid)
        if before != uid:
            self._used_before.setdefault(pod.metadata.uid, before)
        self._used[pod.metadata.uid] = uid
        info = self.infos.get(uid)
        if info is None:
            return
        try:
            info.assign(AssignedPod.of(pod))
        except QuantityError as error:
            log.warning("pod %s: %s", pod.metadata.key, error)
            return
        if info.node_name:
            if info.is_matchable:
                self.allocated_on.setdefault(info.node_name, set()).add(uid)
            self._report_change(info.node_name)

    def _stop_using(self, uid: str, pod_uid: str) -> None:
        if self._used.get(pod_uid) == uid:
            before = self._used_before.pop(pod_uid, None)
            if before is None:
                del self._used[pod_uid]
            else:
                self._used[pod_uid] = before
            self._presumed.discard(pod_uid)
        users = self._users.get(uid)
        if users is not None:
            users.pop(pod_uid, None)
            if not users:
                del self._users[uid]
        info = self.infos.get(uid)
        if info is None or pod_uid not in info.assigned:
            return
        info.unassign(pod_uid)
        if not info.assigned:
            self._unallocate(info.node_name, uid)
        if info.node_name:
            self._report_change(info.node_name)

    def _stop_using_any(self, pod_uid: str) -> None:
        while (uid := self._used.get(pod_uid)) is not None:
            self._stop_using(uid, pod_uid)

    # --- pods as the API server has them ---------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """Take in a pod; only bound ones that have not ended matter. Its requests count as they are now."""
        if pod.is_terminal:
            self.delete_pod(pod)
        elif pod.spec.node_name:
            self._stop_using_any(pod.metadata.uid)
            used = annotations.allocated(pod.metadata.annotations)
            if used is not None:
                self._use(used.uid, pod)
            if annotations.is_operating(pod.metadata):
                self._operate(pod)

    def update_pod(self, old: Pod, pod: Pod) -> None:
        """Take in a changed pod."""
        if not pod.is_terminal and not pod.spec.node_name:
            if old.spec.node_name:
                self.delete_pod(old)
            return
        if annotations.is_operating(old.metadata) and not annotations.is_operating(pod.metadata):
            self.remove(old.metadata.uid)
        self.add_pod(pod)

    def delete_pod(self, pod: Pod) -> None:
        """Forget a pod that ended or was deleted."""
        self._stop_using_any(pod.metadata.uid)
        if annotations.is_operating(pod.metadata):
            self.remove(pod.metadata.uid)

    def _operate(self, pod: Pod) -> None:
        """Take in a pod that acts as a reservation, and the owner that uses it by its annotation."""
        uid = pod.metadata.uid
        try:
            owner = annotations.current_owner(pod.metadata.annotations)
        except DecodeError as error:
            log.warning("pod %s: %s", pod.metadata.key, error)
            owner = None
        known, before = self.infos.get(uid), self._current.pop(uid, None)
        if known is not None and before is not None:
            known.unassign(before)
        if owner is None:
            self._upsert(pod)
        else:
            self._current[uid] = owner.uid
            self._upsert(pod, AssignedPod(owner.namespace, owner.name, owner.uid, {}))


def _discard(index: dict[str, dict[str, ReservationInfo]], node_name: str, uid: str) -> None:
    known = index.get(node_name)
    if known is not None:
        known.pop(uid, None)
        if not known:
            del index[node_name]
