"""ReservationRestore: other plugins restore the resources of an attempt's reservations.

These are the resources of its reservations, or of the pods that it may take over, that only these plugins
count.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go`.
"""

import numpy as np

from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.reservation_points import ReservationPoints
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..state.withheld import Withheld
from .pairs import candidate_pairs, matched_pairs
from .prepared import Prepared


class Restoring:
    """Runs the ReservationRestore plugins of a profile for attempts that are prepared."""

    def __init__(self, handle: Handle, withheld: Withheld) -> None:
        self._handle, self._table, self._withheld = handle, handle.nodes, withheld

    def restore(self, state: CycleState, prepared: Prepared) -> Status:
        """Let the plugins restore all nodes where something is for the attempt.

        To a reserve pod all reservations of the nodes are unmatched; what it may take over comes after them.
        """
        points = self._handle.framework.reservations
        taking_over = prepared.reservation if prepared.is_pre_allocation else None
        pod = prepared.requirements.pod
        status = points.pre_restore(state, pod) if points.restores else SUCCESS
        if status.is_success and taking_over is not None:
            status = points.pre_restore_pre_allocation(state, taking_over)
        if status.is_success and points.restores:
            states, status = points.restore(state, pod, *self._pairs(prepared))
            if status.is_success:
                status = points.final_restore(state, pod, states)
        if status.is_success and taking_over is not None:
            status = self._candidates(state, prepared, taking_over, points)
        return status

    def _candidates(
        self, state: CycleState, prepared: Prepared, info: ReservationInfo, points: ReservationPoints
    ) -> Status:
        candidates = prepared.matches.candidates
        nodes = self._nodes(np.array(sorted(candidates), np.int64))
        pods = [candidates[row].candidates for row in nodes.rows.tolist()]
        return points.restore_pre_allocation(state, info, candidate_pairs(info, nodes, pods))

    def _pairs(self, prepared: Prepared) -> tuple[ReservationPairs, ReservationPairs]:
        """Return the pod with matched and unmatched reservations, on nodes with any or with candidates."""
        matches, matchable, pod = prepared.matches, self._withheld.matchable, prepared.requirements.pod
        unmatched = self._unmatched(prepared)
        if not len(unmatched) and not matches:  # nothing is for most pods
            nothing = ReservationPairs(self._nodes(unmatched), unmatched, [], [])
            return nothing, nothing
        found = np.flatnonzero(matches.mask(self._table.capacity))
        nodes = self._nodes(np.union1d(found, matchable.row[unmatched]))
        at = np.searchsorted(nodes.rows, matches.rows)
        at_unmatched = np.searchsorted(nodes.rows, matchable.row[unmatched])
        infos = [matchable.info(slot) for slot in unmatched.tolist()]
        return (
            matched_pairs(matches, pod, nodes, at, np.arange(len(at))),
            ReservationPairs(nodes, at_unmatched, [pod] * len(infos), infos),
        )

    def unmatched_on(self, prepared: Prepared, row: int) -> list[ReservationInfo]:
        """Return the matchable reservations of a node that are not for the pod, though other pods use them.

        For a reserve pod these are all of them.
        """
        matchable, slots = self._withheld.matchable, self._unmatched(prepared)
        return [matchable.info(slot) for slot in slots[matchable.row[slots] == row].tolist()]

    def _unmatched(self, prepared: Prepared) -> Int64:
        """(k,) the slots of these reservations on all nodes, by row, then name."""
        matchable = self._withheld.matchable
        if prepared.reservation is None:
            slots = self._withheld.slots_in_use
        else:
            slots = matchable.in_order(np.flatnonzero(matchable.row >= 0).tolist())
        if not len(slots):
            return slots
        rows = matchable.row[slots]
        wanted = (rows >= 0) & self._table.present[rows]
        if prepared.restored is not None:
            wanted &= prepared.restored[rows]
        slots = slots[wanted]
        return slots[~np.isin(slots, prepared.matches.slots)]

    def _nodes(self, rows: Int64) -> NodeSet:
        return NodeSet.of_rows(self._table, rows)
