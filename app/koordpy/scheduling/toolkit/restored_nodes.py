"""What the reservations of nodes hold, as an attempt sees it: found out once something asks for it.

A plugin whose allocations reservations may hold is called for all nodes with reservations before it filters
(`ReservationRestore.restore_reservations`). Most attempts never need what it would find there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final, Generic, TypeVar

from koordpy.cluster.nodes import NodeSet
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs

T = TypeVar("T")

Infos = Sequence[ReservationInfo]
Find = Callable[[str, Infos, Infos], T | None]
"""Returns what the matched and the unmatched reservations of a node hold; None if that is nothing."""
_InfosByNode = Mapping[str, tuple[Infos, Infos]]

MAX_BYTES: Final = 32 << 20
"""The budget of a `RememberedNodes`."""

_ENTRY_BYTES: Final = 1000


class RestoredNodes(Generic[T]):
    """What reservations hold, by node name."""

    def __init__(self, find: Find[T] = lambda *_: None, infos: Callable[[], _InfosByNode] = dict) -> None:
        self._find, self._read_infos = find, infos
        self._found: dict[str, T | None] = {}

    @classmethod
    def of_pairs(
        cls, matched: ReservationPairs, unmatched: ReservationPairs, find: Find[T]
    ) -> "RestoredNodes[T]":
        """Return what the reservations of pairs hold; both pairs have the same nodes."""
        return cls(find, partial(_by_node_name, matched, unmatched))

    @cached_property
    def _infos(self) -> _InfosByNode:
        return self._read_infos()

    def on(self, node_name: str) -> T | None:
        """Return what reservations hold on a node; None if that is nothing."""
        if node_name not in self._found:
            infos = self._infos.get(node_name)
            self._found[node_name] = None if infos is None else self._find(node_name, *infos)
        return self._found[node_name]

    def among(self, nodes: NodeSet) -> dict[int, T]:
        """Return the same, by position, for those of some nodes on which they hold anything."""
        known = self._found
        candidates = self._infos.keys() | known.keys() if known else self._infos.keys()
        if not candidates:
            return {}
        holding = {}
        for at, name in nodes.positions_of(candidates).items():
            found = known[name] if name in known else self.on(name)
            if found is not None:
                holding[at] = found
        return holding

    def keep(self, node_name: str, found: T | None) -> None:
        """Replace what reservations hold on a node."""
        self._found[node_name] = found


def _by_node_name(matched: ReservationPairs, unmatched: ReservationPairs) -> _InfosByNode:
    names = matched.nodes.names
    found: dict[str, tuple[list[ReservationInfo], list[ReservationInfo]]] = {}
    for kind, pairs in enumerate((matched, unmatched)):
        for at, info in zip(pairs.at.tolist(), pairs.reservations, strict=True):
            found.setdefault(names[at], ([], []))[kind].append(info)
    return found


@dataclass(frozen=True, slots=True)
class _Remembered(Generic[T]):
    """What was found, and all that it was found from."""

    version: int
    infos: tuple[Infos, Infos]
    revisions: Sequence[int]
    found: T | None


class RememberedNodes(Generic[T]):
    """What a `Find` finds, remembered from attempt to attempt until the node or a reservation changes.

    `version` returns a number that changes with all that `find` reads of a node by its name. Attempts get
    what `own` makes of what is remembered, which is a copy of all that they change. `size` returns the bytes
    of what was found that nothing else holds, and anything larger than a limit if there is more.
    """

    def __init__(
        self,
        name: str,
        version: Callable[[str], int],
        find: Find[T],
        *,
        size: Callable[[T, int], int],
        own: Callable[[T], T] = lambda found: found,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._version, self._find, self._own = version, find, own
        self._size = size
        self._known: BoundedLru[tuple[str, ...], _Remembered[T]] = BoundedLru(name, max_bytes)

    def __call__(self, node_name: str, matched: Infos, unmatched: Infos) -> T | None:
        """Return what `find` returns."""
        key = (node_name, *(info.uid for info in matched))
        version, infos = self._version(node_name), (matched, unmatched)
        revisions = [info.revision for of_kind in infos for info in of_kind]
        known = self._known.get(key)
        if (
            known is not None
            and known.version == version
            and known.infos == infos
            and known.revisions == revisions
        ):
            found = known.found
        else:
            found = self._find(node_name, matched, unmatched)
            more = 0 if found is None else self._size(found, self._known.largest)
            self._known.put(key, _Remembered(version, infos, revisions, found), _ENTRY_BYTES + more)
        return None if found is None else self._own(found)
