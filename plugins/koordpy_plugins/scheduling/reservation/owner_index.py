"""Which reservations are for a pod, without asking them all.

Every owner says something that a pod must have: a label, an owner's name, a name of its own. Reservations
are filed under that; what says nothing of the kind is asked about every pod. Reservations with equal owners
are asked once.
"""

from collections.abc import Iterator

from koordpy.api.core import Pod
from koordpy.api.reservation_owners import OwnerMatchers
from koordpy.scheduling.reservation_info import ReservationInfo

_Anchor = tuple[str, ...]

_ANY: _Anchor = ()


class OwnerIndex:
    """Reservations by what their owners have in common with pods."""

    def __init__(self) -> None:
        self._groups: dict[int, tuple[OwnerMatchers, dict[str, ReservationInfo]]] = {}
        self._group_of: dict[str, int] = {}
        self._anchored: dict[_Anchor, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._group_of)

    def add(self, info: ReservationInfo) -> None:
        """File a reservation, or file it anew."""
        self.discard(info.uid)
        if info.parse_error:
            return
        key = id(info.owners)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = info.owners, {}
            for anchor in info.owners.anchors:
                self._anchored.setdefault(anchor, {})[key] = None
        group[1][info.uid] = info
        self._group_of[info.uid] = key

    def discard(self, uid: str) -> None:
        """Take a reservation out, if it is there."""
        key = self._group_of.pop(uid, None)
        if key is None:
            return
        owners, members = self._groups[key]
        del members[uid]
        if not members:
            del self._groups[key]
            for anchor in owners.anchors:
                filed = self._anchored[anchor]
                filed.pop(key, None)
                if not filed:
                    del self._anchored[anchor]

    def of(self, pod: Pod) -> list[ReservationInfo]:
        """Return the reservations of which a pod is an owner."""
        if not self._groups:
            return []
        seen: set[int] = set()
        found: list[ReservationInfo] = []
        for anchor in _anchors_of(pod):
            for key in self._anchored.get(anchor, ()):
                if key not in seen:
                    seen.add(key)
                    owners, members = self._groups[key]
                    if owners.matches(pod):
                        found.extend(members.values())
        return found

    def __iter__(self) -> Iterator[ReservationInfo]:
        for _, members in self._groups.values():
            yield from members.values()


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
