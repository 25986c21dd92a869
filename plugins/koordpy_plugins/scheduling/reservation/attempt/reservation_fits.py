"""Into which of its matched reservations a pod fits, as arrays.

Shapes: k matched reservations on the nodes of a set, g nodes that have any.
"""

from dataclasses import dataclass

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib import runs


@dataclass(frozen=True, slots=True)
class ReservationFits:
    """The k matched reservations on the nodes of a set, by node."""

    at: Int64
    """(k,) the index of the node in the set; those of a node are beside each other."""
    slots: Int64
    """(k,) slots of the matchable reservations."""
    chosen: Int64
    """(k,) indexes into the matches of the attempt."""
    first: Int64
    """(g,) the position at which the reservations of each node begin."""
    group: Int64
    """(k,) the position of the node among those that have any."""
    passes: Bool
    """(k,) whether the pod fits."""
    unsure: Bool
    """(k,) whether these arrays cannot say so."""

    @property
    def sizes(self) -> Int64:
        """(g,) how many matched reservations each node has."""
        return runs.sizes(self.first, len(self.at))

    def any_of_node(self, flags: Bool) -> Bool:
        """(g,) whether a flag (k,) is set for any reservation of a node."""
        if not len(self.first):
            return np.zeros(0, np.bool_)
        of_nodes: Bool = np.logical_or.reduceat(flags, self.first)
        return of_nodes

    def among(self, before: NodeSet, nodes: NodeSet) -> "ReservationFits":
        """Return the same of `nodes`, which must be some of those `before`."""
        if nodes is before:
            return self
        at = positions(nodes)[before.rows[self.at]]
        kept = np.flatnonzero(at >= 0)
        at = at[kept]
        first, _, group = by_node(at)
        return ReservationFits(
            at, self.slots[kept], self.chosen[kept], first, group, self.passes[kept], self.unsure[kept]
        )


def positions(nodes: NodeSet) -> Int64:
    """(rows of the table,) the index of each node in a set, -1 of those that it lacks."""
    found = np.full(nodes.table.capacity, -1, np.int64)
    found[nodes.rows] = np.arange(len(nodes))
    return found


def by_node(at: Int64) -> tuple[Int64, Int64, Int64]:
    """Return (g,) where the reservations of each node begin, (g,) how many they are, and (k,) their node."""
    first = runs.starts(at)
    sizes = runs.sizes(first, len(at))
    return first, sizes, np.repeat(np.arange(len(first)), sizes)
