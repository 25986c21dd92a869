"""What the reservations of nodes hold, as an attempt sees it: found out once something asks for it.

A plugin whose allocations reservations may hold is called for all nodes with reservations before it filters
(`ReservationRestore.restore_reservations`). Most attempts never need what it would find there.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Generic, TypeVar

from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs

T = TypeVar("T")

Infos = Sequence[ReservationInfo]
Find = Callable[[str, Infos, Infos], T | None]
"""Returns what the matched and the unmatched reservations of a node hold; None if that is nothing."""
_InfosByNode = Mapping[str, tuple[Infos, Infos]]


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

    def among(self, nodes: NodeSet) -> dict[str, T]:
        """Return the same, by name, for those of some nodes on which they hold anything."""
        candidates = self._infos.keys() | self._found.keys()
        if not candidates:
            return {}
        found = ((name, self.on(name)) for name in nodes.names if name in candidates)
        return {name: each for name, each in found if each is not None}

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
