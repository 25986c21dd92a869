"""Nodes as an attempt is to see them: with what reservations hold that are not for it.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go` (restoring).
"""

from dataclasses import replace

import numpy as np

from koordpy.api.resources import pod_node_request_vector, pod_nonzero_request
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.overlay import Overlay

from .book import Int64
from .cache import ReservationCache
from .prepared import Prepared
from .shown_pods import ShownPods
from .withheld import Withheld


class Shower:
    """Shows nodes to attempts."""

    def __init__(self, cache: ReservationCache, withheld: Withheld) -> None:
        self._cache, self._withheld = cache, withheld

    def show(self, prepared: Prepared, nodes: NodeSet) -> NodeSet:
        """Return the nodes with what is withheld from the pod; the same set where nothing is."""
        if not self._cache.on_node and not prepared.matches:
            return nodes
        moment = nodes.table.moment
        last = prepared.shown
        if last is not None and last[0] is nodes and last[1] == moment:
            return last[2]
        rows, base = nodes.rows, nodes.overlay
        withheld = self._withheld
        requested = nodes.table.requested.take(rows, axis=0) if base is None else base.requested.copy()
        nonzero = (
            nodes.table.nonzero_requested.take(rows, axis=0)
            if base is None
            else base.nonzero_requested.copy()
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
        requested = self._give_back(prepared, rows, nodes.table.capacity, requested, nonzero)
        pods = ShownPods(
            nodes.table, self._cache, withheld, base.pods if base is not None else {}, prepared.matches
        )
        shown = replace(nodes, overlay=Overlay(requested, nonzero, pods))
        if base is None:  # whoever made an overlay may go on changing it
            prepared.shown = nodes, moment, shown
        return shown

    def _give_back(
        self, prepared: Prepared, rows: Int64, capacity: int, requested: Int64, nonzero: Int64
    ) -> Int64:
        """Give back what matched reservations and candidates take of their nodes."""
        matches, book = prepared.matches, self._withheld.book
        if not matches and not matches.imagined:
            return requested
        places = np.full(capacity, -1, np.int64)
        places[rows] = np.arange(len(rows))
        requested = _widened(requested, book.held.shape[1])
        self._give_imagined(prepared, places, requested, nonzero)
        at = places[matches.rows]
        seen = (at >= 0) & matches.current
        at, slots = at[seen], matches.slots[seen]
        width = book.held.shape[1]
        np.add.at(requested[:, :width], at, book.allocated[slots] - book.held[slots])
        np.add.at(nonzero, at, book.allocated_nonzero[slots] - book.held_nonzero[slots])
        for index, row in enumerate(rows.tolist() if matches.candidates else ()):
            match = matches.candidates.get(row)
            for pod in match.candidates if match is not None else ():
                change = book.vector(pod_node_request_vector(pod), pods=1)
                requested = _widened(requested, len(change))
                requested[index, : len(change)] -= change
                nonzero[index] -= pod_nonzero_request(pod)
        return requested

    def _give_imagined(self, prepared: Prepared, places: Int64, requested: Int64, nonzero: Int64) -> None:
        """Count once what pods of a what-if would use of reservations that are not for this pod."""
        matches, restored = prepared.matches, prepared.restored
        for row in matches.imagined.rows:
            index = int(places[row])
            if index < 0 or (restored is not None and not restored[row]):
                continue
            own = {info.uid for info in matches.of(row)}
            for would, now in matches.imagined.changed(row):
                if would.uid not in own:
                    change = self._withheld.vector(would.allocated_vector)
                    change = change - self._withheld.vector(now.allocated_vector)
                    requested[index, : len(change)] -= change
                    nonzero[index] -= np.subtract(would.nonzero_allocated, now.nonzero_allocated)


def _at(column: np.ndarray, rows: Int64) -> np.ndarray:
    """Return (n,) a column's values; rows that came later are false."""
    if len(rows) and int(rows.max()) >= len(column):
        column = np.concatenate([column, np.zeros(int(rows.max()) + 1 - len(column), column.dtype)])
    return column[rows]


def _widened(amounts: Int64, width: int) -> Int64:
    """Return (n, at least `width`) amounts, with zeros for resources that nobody had requested."""
    if amounts.shape[1] >= width:
        return amounts
    return np.pad(amounts, ((0, 0), (0, width - amounts.shape[1])))
