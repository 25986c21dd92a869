"""When nodes were last seen in an attempt, so that changes of them, or of the pods on them, show."""

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet


class Moments:
    """The generations of a node and of its pods by row of the node table; a row's next node has others."""

    def __init__(self) -> None:
        self._seen: Int64 = np.empty((0, 2), np.int64)

    def mark(self, nodes: NodeSet) -> None:
        """Remember the nodes as they are now."""
        if len(self._seen) < nodes.table.capacity:
            more = nodes.table.capacity - len(self._seen)
            self._seen = np.concatenate([self._seen, np.full((more, 2), -1)])
        self._seen[nodes.rows] = _now(nodes)

    def hold(self, nodes: NodeSet) -> Bool:
        """(n,) whether a node was seen, and neither it nor its pods have changed since."""
        if not len(self._seen):
            return np.zeros(len(nodes), np.bool_)
        seen = self._seen.take(nodes.rows, axis=0, mode="clip")
        unchanged: Bool = (seen == _now(nodes)).all(axis=1) & (nodes.rows < len(self._seen))
        return unchanged


def _now(nodes: NodeSet) -> Int64:
    """(n, 2) the generations."""
    table, rows = nodes.table, nodes.rows
    return np.stack([table.generation[rows], table.pods_generation[rows]], axis=1)
