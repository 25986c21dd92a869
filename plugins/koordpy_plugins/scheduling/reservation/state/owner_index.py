"""Which reservations have a pod among their owners, without comparing it with all of them.

Most owners demand something that can be indexed: a label, an owner's name, a name of the pod itself.
Reservations are indexed by that, their *anchors*; one without any is compared with every pod. Reservations
with equal owners are compared once.
"""

from collections.abc import Iterator

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.reservation_owners import OwnerMatchers
from koordpy.cluster.columns import Int64
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .matchable import MatchableReservations

_Anchor = tuple[str, ...]

_ANY: _Anchor = ()


class Group:
    """Reservations with equal owners."""

    __slots__ = ("_slots", "members", "owners")

    def __init__(self, owners: OwnerMatchers) -> None:
        self.owners = owners
        self.members: dict[str, ReservationInfo] = {}
        self._slots: Int64 | None = None

    def add(self, info: ReservationInfo) -> None:
        """Add one."""
        self.members[info.uid] = info
        self._slots = None

    def discard(self, uid: str) -> None:
        """Remove one."""
        del self.members[uid]
        self._slots = None

    def slots(self, matchable: MatchableReservations) -> Int64:
        """Return (k,) the slots of the members."""
        if self._slots is None:
            found = (matchable.slot_of(uid) for uid in self.members)
            self._slots = np.array([slot for slot in found if slot is not None], np.int64)
        return self._slots


class OwnerIndex:
    """Reservations by what their owners have in common with pods."""

    def __init__(self) -> None:
        self._groups: dict[int, Group] = {}
        self._group_of: dict[str, int] = {}
        self._anchored: dict[_Anchor, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._group_of)

    def add(self, info: ReservationInfo) -> None:
        """Add a reservation, or replace it."""
        self.discard(info.uid)
        if info.parse_error:
            return
        key = id(info.owners)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(info.owners)
            for anchor in info.owners.anchors:
                self._anchored.setdefault(anchor, {})[key] = None
        group.add(info)
        self._group_of[info.uid] = key

    def discard(self, uid: str) -> None:
        """Remove a reservation, if it is there."""
        key = self._group_of.pop(uid, None)
        if key is None:
            return
        group = self._groups[key]
        group.discard(uid)
        if not group.members:
            del self._groups[key]
            for anchor in group.owners.anchors:
                keys = self._anchored[anchor]
                keys.pop(key, None)
                if not keys:
                    del self._anchored[anchor]

    def groups_of(self, pod: Pod) -> Iterator["Group"]:
        """Yield the groups of reservations of which a pod is an owner."""
        if not self._groups:
            return
        seen: set[int] = set()
        for anchor in _anchors_of(pod):
            for key in self._anchored.get(anchor, ()):
                if key not in seen:
                    seen.add(key)
                    group = self._groups[key]
                    if group.owners.matches(pod):
                        yield group


def _anchors_of(pod: Pod) -> Iterator[_Anchor]:
    meta = pod.metadata
    yield _ANY
    for key, value in meta.labels.items():
        yield "label", key, value
    yield "name", meta.name
    yield "uid", meta.uid
    for reference in meta.owner_references:
        yield "owner name", reference.name
        yield "owner uid", reference.uid
