"""Nodes as an attempt is to see them: with what reservations hold that are not for it.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go` (restoring).
"""

from dataclasses import replace

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.resources import pod_node_request_vector, pod_nonzero_request
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.overlay import Overlay

from .cache import ReservationCache
from .prepared import NodeMatch, Prepared
from .withheld import Int64, ShownPods, Withheld


class Shower:
    """Shows nodes to attempts."""

    def __init__(self, cache: ReservationCache, withheld: Withheld) -> None:
        self._cache, self._withheld = cache, withheld

    def show(self, prepared: Prepared, nodes: NodeSet) -> NodeSet:
        """Return the nodes with what is withheld from the pod; the same set where nothing is."""
        if not self._cache.on_node and not prepared.matches:
            return nodes
        rows, base = nodes.rows, nodes.overlay
        withheld = self._withheld
        counts = np.ones(len(rows), np.bool_) if prepared.restored is None else _at(prepared.restored, rows)
        requested = nodes.table.requested.take(rows, axis=0) if base is None else base.requested.copy()
        nonzero = (
            nodes.table.nonzero_requested.take(rows, axis=0)
            if base is None
            else base.nonzero_requested.copy()
        )
        requested = _widened(requested, withheld.held.shape[1])
        width = withheld.held.shape[1]
        requested[:, :width] += withheld.held.take(rows, axis=0)
        requested[:, :width] -= withheld.given.take(rows, axis=0) * counts[:, None]
        nonzero += withheld.held_nonzero.take(rows, axis=0)
        nonzero -= withheld.given_nonzero.take(rows, axis=0) * counts[:, None]
        own = {row: match for row, match in prepared.matches.items() if match.matched or match.candidates}
        if own:
            for index, row in enumerate(rows.tolist()):
                match = own.get(row)
                if match is not None:
                    requested = self._restore(match, requested, nonzero, index)
        absent = {row: frozenset(pod.metadata.uid for pod in self._gone(match)) for row, match in own.items()}
        pods = ShownPods(
            nodes.table,
            self._cache,
            base.pods if base is not None else {},
            {row: match.matched for row, match in own.items()},
            {row: uids for row, uids in absent.items() if uids},
        )
        return replace(nodes, overlay=Overlay(requested, nonzero, pods))

    def _gone(self, match: NodeMatch) -> list[Pod]:
        """The real pods of a node that the attempt does not see."""
        return [*match.candidates, *(info.pod for info in match.matched if info.reservation is None)]

    def _restore(self, match: NodeMatch, requested: Int64, nonzero: Int64, index: int) -> Int64:
        """Give back what matched reservations and candidates take of a node."""
        withheld = self._withheld
        for info in match.matched:
            change = -withheld.vector(info.held, pods=1)
            nonzero[index] -= info.nonzero_held
            if info.assigned:
                change += withheld.vector(info.allocated_vector)
                nonzero[index] += info.nonzero_allocated
            requested = _widened(requested, len(change))
            requested[index, : len(change)] += change
        for pod in match.candidates:
            change = withheld.vector(pod_node_request_vector(pod), pods=1)
            requested = _widened(requested, len(change))
            requested[index, : len(change)] -= change
            nonzero[index] -= pod_nonzero_request(pod)
        return requested


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
