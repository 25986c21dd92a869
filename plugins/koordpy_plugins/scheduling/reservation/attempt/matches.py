"""The reservations that a pod may use, or the running pods that a Reservation may take over, by node.

Kept as arrays over slots of the matchable reservations; the view of one node is made on demand.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.resources import Vector
from koordpy.cluster.columns import Bool, Int64
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from ..state.matchable import MatchableReservations
from .hypothetical import HypotheticalReservations

_NONE: Int64 = np.zeros(0, np.int64)


@dataclass(slots=True)
class NodeMatch:
    """What there is for an attempt on one node."""

    name: str
    matched: Sequence[ReservationInfo] = ()
    """Reservations that the pod may use, by name."""
    candidates: Sequence[Pod] = ()
    """Pods that a pre-allocating Reservation may take over, in order."""
    allocated: Vector = field(default_factory=dict)
    """What pods use of the matched reservations."""


class Matches(Mapping[int, NodeMatch]):
    """The nodes with a match, by row of the node table."""

    def __init__(
        self,
        matchable: MatchableReservations,
        slots: Int64 = _NONE,
        candidates: Mapping[int, NodeMatch] | None = None,
        hypothetical: HypotheticalReservations | None = None,
    ) -> None:
        """Take slots (k,) in any order."""
        self.hypothetical = hypothetical or HypotheticalReservations()
        """Reservations that differ in this what-if."""
        self._matchable, self._version = matchable, matchable.version
        ordered = sorted(slots.tolist(), key=matchable.keys.__getitem__)
        self.slots: Int64 = np.array(ordered, np.int64)
        """(k,) the matched reservations, by row, then name."""
        self.rows: Int64 = matchable.row[self.slots]
        """(k,) their nodes."""
        self.infos: list[ReservationInfo] = [matchable.info(slot) for slot in ordered]
        """The same as objects."""
        self.candidates: Mapping[int, NodeMatch] = candidates or {}
        """The nodes with running pods that a Reservation may take over."""
        self._known: dict[int, NodeMatch] = dict(self.candidates)

    @property
    def current(self) -> Bool:
        """(k,) whether the slots still have the same reservations."""
        if self._matchable.version == self._version:
            return np.ones(len(self.slots), np.bool_)
        return np.fromiter(
            (
                self._matchable.infos[slot] is info
                for slot, info in zip(self.slots.tolist(), self.infos, strict=True)
            ),
            np.bool_,
            len(self.infos),
        )

    def of(self, row: int) -> Sequence[ReservationInfo]:
        """Return the matched reservations of a node, by name."""
        if not self.infos:
            return ()
        begin, end = np.searchsorted(self.rows, (row, row + 1)).tolist()
        return [self.hypothetical.of(row, info) for info in self.infos[begin:end]]

    def __getitem__(self, row: int) -> NodeMatch:
        known = self._known.get(row)
        if known is not None:
            return known
        infos = self.of(row)
        if not infos:
            raise KeyError(row)
        allocated: Vector = {}
        for info in infos:
            for name, amount in info.allocated_vector.items():
                allocated[name] = allocated.get(name, 0) + amount
        match = self._known[row] = NodeMatch(infos[0].node_name, infos, allocated=allocated)
        return match

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys([*self.rows.tolist(), *self.candidates]))

    def __len__(self) -> int:
        return len(dict.fromkeys([*self.rows.tolist(), *self.candidates]))

    def __bool__(self) -> bool:
        return bool(len(self.rows) or self.candidates)

    def mask(self, capacity: int) -> Bool:
        """(capacity,) whether a row has a match."""
        mask = np.zeros(capacity, np.bool_)
        mask[self.rows] = True
        mask[list(self.candidates)] = True
        return mask
