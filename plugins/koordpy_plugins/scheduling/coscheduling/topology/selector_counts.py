"""How many pods of a selector are on each node."""

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Int64
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.nodes import NodeSet

from .members import selector_of


class SelectorCounts(DerivedState):
    """Counts of the pods placed in the node table, assumed ones included, by selector and row."""

    one_per_cluster = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._table = cluster.nodes
        self._rows: dict[str, dict[int, int]] = {}
        self.at_close(self._table.on_pods(self._place, self._displace))

    def snapshot(self) -> Snapshot:
        """Return the numbers of pods by selector and node."""
        return {
            selector: {self._table.name_of(row): number for row, number in rows.items()}
            for selector, rows in self._rows.items()
        }

    def by_row(self, selector: str, nodes: NodeSet) -> Int64:
        """(rows of the table,) the pods of a selector on each row, hidden ones too, with an overlay's."""
        counts = np.zeros(self._table.capacity, np.int64)
        rows = self._rows.get(selector)
        if rows:
            counts[list(rows)] = list(rows.values())
        hidden = self._table.hidden
        for row in hidden.rows():
            counts[row] += sum(selector_of(pod) == selector for pod in hidden.on(row))
        if nodes.overlay is not None:
            for move in nodes.overlay.pods.moves():
                if selector_of(move.pod) == selector:
                    counts[move.row] += move.sign
        return counts

    def _place(self, row: int, pod: Pod) -> None:
        selector = selector_of(pod)
        if selector:
            rows = self._rows.setdefault(selector, {})
            rows[row] = rows.get(row, 0) + 1

    def _displace(self, row: int, pod: Pod) -> None:
        selector = selector_of(pod)
        if selector:
            rows = self._rows[selector]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self._rows[selector]
