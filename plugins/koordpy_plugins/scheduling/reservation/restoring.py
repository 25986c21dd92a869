"""Letting other plugins give back to an attempt what is for it.

That is what its reservations, or the pods that it may take over, hold of things that only they count.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go`.
"""

import numpy as np

from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.reservation_points import ReservationPoints
from koordpy.scheduling.interface.status import SUCCESS, Status

from .book import Int64
from .nominator import running
from .prepared import Prepared
from .withheld import Withheld


class Restoring:
    """Asks the ReservationRestore plugins on behalf of attempts that are prepared."""

    def __init__(self, table: NodeTable, withheld: Withheld) -> None:
        self._table, self._withheld = table, withheld

    def restore(self, state: CycleState, prepared: Prepared, points: ReservationPoints) -> Status:
        """Let the plugins restore all nodes that have something for the attempt."""
        info = prepared.reservation
        if info is not None:
            return self._running(state, prepared, info, points) if prepared.is_pre_allocation else SUCCESS
        if not points.restores:
            return SUCCESS
        pod = prepared.wish.pod
        status = points.pre_restore(state, pod)
        if not status.is_success:
            return status
        states, status = points.restore(state, pod, *self._pairs(prepared))
        return points.final_restore(state, pod, states) if status.is_success else status

    def _running(
        self, state: CycleState, prepared: Prepared, info: ReservationInfo, points: ReservationPoints
    ) -> Status:
        status = points.pre_restore_pre_allocation(state, info)
        if not status.is_success:
            return status
        found = prepared.matches.candidates
        nodes = self._nodes(np.array(sorted(found), np.int64))
        pods = [found[row].candidates for row in nodes.rows.tolist()]
        return points.restore_pre_allocation(state, info, running(info, nodes, pods))

    def _pairs(self, prepared: Prepared) -> tuple[ReservationPairs, ReservationPairs]:
        """Return the pod with matched and with unmatched reservations, on the nodes that have either."""
        matches, book, pod = prepared.matches, self._withheld.book, prepared.wish.pod
        unmatched = self._unmatched(prepared)
        nodes = self._nodes(np.union1d(matches.rows, book.row[unmatched]))
        matched = [
            matches.imagined.of(row, info)
            for row, info in zip(matches.rows.tolist(), matches.infos, strict=True)
        ]
        at = np.searchsorted(nodes.rows, matches.rows)
        at_unmatched = np.searchsorted(nodes.rows, book.row[unmatched])
        infos = [book.info(slot) for slot in unmatched.tolist()]
        return (
            ReservationPairs(nodes, at, [pod] * len(matched), matched),
            ReservationPairs(nodes, at_unmatched, [pod] * len(infos), infos),
        )

    def unmatched_on(self, prepared: Prepared, row: int) -> list[ReservationInfo]:
        """Return the offered reservations of a node that are not for the pod, though others use them.

        For a reserve pod these are all of them.
        """
        book, slots = self._withheld.book, self._unmatched(prepared)
        return [book.info(slot) for slot in slots[book.row[slots] == row].tolist()]

    def _unmatched(self, prepared: Prepared) -> Int64:
        """Return the slots of these reservations on all nodes, by row, then name."""
        book, withheld = self._withheld.book, self._withheld
        slots = np.flatnonzero(book.row >= 0)
        rows = book.row[slots]
        wanted = self._table.present[rows]
        if prepared.restored is not None:
            wanted = wanted & prepared.restored[rows]
        if prepared.reservation is None:
            wanted = wanted & withheld.used[rows]
        slots = slots[wanted]
        slots = slots[~np.isin(slots, prepared.matches.slots)]
        found = [
            (int(row), info.name, slot)
            for row, slot in zip(book.row[slots].tolist(), slots.tolist(), strict=True)
            if (info := book.info(slot)).assigned or prepared.reservation is not None
        ]
        return np.array([slot for _, _, slot in sorted(found)], np.int64)

    def _nodes(self, rows: Int64) -> NodeSet:
        return NodeSet(self._table, [self._table.name_of(row) for row in rows.tolist()], rows)
