"""Nodes as an attempt sees them: the resources of reservations that do not match the pod are withheld.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go` (restoring).
"""

from functools import partial

import numpy as np

from koordpy.api.resources import pod_node_request_vector, pod_nonzero_request
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.overlay import Overlay

from ..state.cache import ReservationCache
from ..state.withheld import Withheld
from .prepared import Prepared
from .visible_pods import PodsWithReservations


class NodeView:
    """Makes the view that attempts have of nodes."""

    def __init__(self, cache: ReservationCache, withheld: Withheld) -> None:
        self._cache, self._withheld = cache, withheld

    def of(self, prepared: Prepared, nodes: NodeSet) -> NodeSet:
        """Return the nodes (n,) with what is withheld from the pod; the same set where nothing is.

        What is requested of a node is what its pods request, and what its reservations hold less what pods
        use of them, which their requests count already; without matched reservations and candidates. It is
        worked out when it is first read.
        """
        table, base = nodes.table, nodes.overlay
        if not self._cache.on_node and not prepared.matches and not table.hidden:
            return nodes
        moment, last = table.moment, prepared.last_view
        if last is not None and last[0] is nodes and last[1] == moment:
            return last[2]
        pods = PodsWithReservations(table, None if base is None else base.pods, prepared.matches)
        overlay = Overlay.on_demand(partial(self._amounts, prepared, nodes), pods)
        view = NodeSet(table, nodes.names, nodes.rows, overlay)
        if base is None:  # the owner of an overlay may go on changing it
            prepared.last_view = nodes, moment, view
        return view

    def _amounts(self, prepared: Prepared, nodes: NodeSet) -> tuple[Int64, Int64]:
        """Return (n, resources) and (n, 2) what is requested of the nodes."""
        table, base, rows, withheld = nodes.table, nodes.overlay, nodes.rows, self._withheld
        requested = table.requested.take(rows, axis=0) if base is None else base.requested.copy()
        nonzero = (
            table.nonzero_requested.take(rows, axis=0) if base is None else base.nonzero_requested.copy()
        )
        width = withheld.held.shape[1]
        requested = _widened(requested, width)
        given, given_nonzero = withheld.given.take(rows, axis=0), withheld.given_nonzero.take(rows, axis=0)
        if prepared.restored is not None:
            aside = ~_at(prepared.restored, rows)
            given[aside] = 0
            given_nonzero[aside] = 0
        requested[:, :width] += withheld.held.take(rows, axis=0) - given
        nonzero += withheld.held_nonzero.take(rows, axis=0) - given_nonzero
        return self._give_back(prepared, rows, table.capacity, requested, nonzero), nonzero

    def _give_back(
        self, prepared: Prepared, rows: Int64, capacity: int, requested: Int64, nonzero: Int64
    ) -> Int64:
        """Subtract what matched reservations and candidates take of their nodes.

        `requested` (n, resources) and `nonzero` (n, 2) are changed in place; returns the former, which is
        another array where it had to be widened.
        """
        matches, matchable = prepared.matches, self._withheld.matchable
        if not matches and not matches.hypothetical:
            return requested
        position = np.full(capacity, -1, np.int64)  # by row of the table; -1 where the set lacks the node
        position[rows] = np.arange(len(rows))
        width = matchable.held.shape[1]
        requested = _widened(requested, width)
        self._give_hypothetical_back(prepared, position, requested, nonzero)
        at = position[matches.rows]
        seen = (at >= 0) & matches.current
        at, slots = at[seen], matches.slots[seen]
        # `given` has what pods use of them; matched reservations are taken off as a whole, so it comes back.
        np.add.at(requested[:, :width], at, matchable.allocated[slots] - matchable.held[slots])
        np.add.at(nonzero, at, matchable.allocated_nonzero[slots] - matchable.held_nonzero[slots])
        for index, row in enumerate(rows.tolist() if matches.candidates else ()):
            match = matches.candidates.get(row)
            for pod in match.candidates if match is not None else ():
                change = matchable.vector(pod_node_request_vector(pod), pods=1)
                requested = _widened(requested, len(change))
                requested[index, : len(change)] -= change
                nonzero[index] -= pod_nonzero_request(pod)
        return requested

    def _give_hypothetical_back(
        self, prepared: Prepared, position: Int64, requested: Int64, nonzero: Int64
    ) -> None:
        """Count once what pods of a what-if would use of reservations that are not for this pod."""
        matches, restored = prepared.matches, prepared.restored
        for row in matches.hypothetical.rows:
            index = int(position[row])
            if index < 0 or (restored is not None and not restored[row]):
                continue
            own = {info.uid for info in matches.of(row)}
            for would, now in matches.hypothetical.changed(row):
                if would.uid not in own:
                    change = self._withheld.vector(would.allocated_vector)
                    change = change - self._withheld.vector(now.allocated_vector)
                    requested[index, : len(change)] -= change
                    nonzero[index] -= np.subtract(would.nonzero_allocated, now.nonzero_allocated)


def _at(column: Bool, rows: Int64) -> Bool:
    """Return (n,) a column's values; rows that came later are false."""
    if len(rows) and int(rows.max()) >= len(column):
        column = np.concatenate([column, np.zeros(int(rows.max()) + 1 - len(column), column.dtype)])
    return column[rows]


def _widened(amounts: Int64, width: int) -> Int64:
    """Return (n, at least `width`) amounts, with zeros for resources that no pod had requested."""
    if amounts.shape[1] >= width:
        return amounts
    return np.pad(amounts, ((0, 0), (0, width - amounts.shape[1])))
