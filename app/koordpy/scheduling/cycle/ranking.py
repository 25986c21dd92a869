"""The order of nodes for pods that are identical, as one evaluation of all nodes left it.

It stays valid for nodes that have not changed since. Nodes that were given a pod, or changed otherwise, are
skipped, as kube-scheduler skips most nodes once it has found a few hundred; but if one of them may well be
the best, all nodes must be evaluated again.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

import numpy as np

from koordpy.cluster.columns import Bool
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores

LOOKED_FOR = 16
"""The number of best nodes that are looked up among those offered, before all of these are scanned."""


class Offered(Protocol):
    """The nodes that a pod may go to."""

    @property
    def nodes(self) -> NodeSet:
        """Those that are known."""
        ...

    def include(self, name: str) -> bool:
        """Return whether a node is one of them; false negatives are allowed."""
        ...


class AllNodes:
    """All nodes of a table are offered."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    @property
    def nodes(self) -> NodeSet:
        """All of them."""
        return self._table.all()

    def include(self, name: str) -> bool:
        """Return whether a node is known."""
        return self._table.row_of(name) is not None


class SomeNodes:
    """Given nodes are offered."""

    def __init__(self, nodes: NodeSet) -> None:
        self.nodes = nodes

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.nodes.names)

    def include(self, name: str) -> bool:
        """Return whether a node is one of them."""
        return name in self._names


class Ranking:
    """The scores of all nodes for pods of one signature.

    `order` are the rows of those that fit, best last. `worth_after` has, by row, the scores of some of the
    best with one more such pod on them.
    """

    def __init__(
        self,
        pod_key: str,
        state: CycleState,
        outcome: FilterOutcome,
        scores: Scores,
        order: list[int],
        worth_after: Mapping[int, int],
    ) -> None:
        self.pod_key = pod_key
        """The pod for which the nodes were evaluated."""
        self.state, self.outcome, self.scores = state, outcome, scores
        table, rows = scores.nodes.table, scores.nodes.rows
        self.moment, self.hidden_version = table.moment, table.hidden.version
        self._order = order
        self._worth = np.full(table.capacity, -1, np.int64)
        self._worth[rows] = scores.total
        self._taken = np.zeros(table.capacity, np.bool_)
        # A pod sometimes makes a node slightly better, by balancing its free resources.
        gain = max((after - int(self._worth[row]) for row, after in worth_after.items()), default=0)
        self._gain = max(gain, 0)
        self._bound = self._worth.copy()
        self._bound[rows] += self._gain
        self._worth_after = worth_after

    def best(self, offered: Offered, table: NodeTable, promised: list[int]) -> int | None:
        """Return the row of the best offered node; None if that requires a new pass.

        `promised` are rows of nodes that have been named for other pods since.
        """
        if table.capacity != len(self._worth):
            return None
        changed = table.generation > self.moment[0]
        changed |= table.pods_generation > self.moment[1]
        changed |= ~table.present  # the generations of a freed row start over
        lost = changed | self._taken
        lost[promised] = True
        row = self._first(offered, table, changed, lost)
        if row is None:
            return None
        rivals = np.flatnonzero(lost & table.present & (self._bound > self._worth[row])).tolist()
        if any(offered.include(table.name_of(rival)) for rival in rivals):
            return None
        return row

    def _first(self, offered: Offered, table: NodeTable, changed: Bool, lost: Bool) -> int | None:
        """Return the first offered node in order that is not lost. Usually it is one of the first few."""
        order = self._order
        while order and changed[order[-1]]:  # permanently, while allocations may be released
            order.pop()
        looked_for = 0
        for row in reversed(order):
            if lost[row]:
                continue
            if offered.include(table.name_of(row)):
                return row
            looked_for += 1
            if looked_for == LOOKED_FOR:
                break
        else:
            return None
        rows = offered.nodes.rows
        worth = self._worth[rows]
        worth[lost[rows]] = -1
        best = int(worth.argmax()) if len(worth) else 0
        return int(rows[best]) if len(worth) and worth[best] >= 0 else None

    def take(self, row: int) -> None:
        """Record that a node was chosen for a pod, which counts on it from now on."""
        self._taken[row] = True
        self._bound[row] = self._worth_after.get(row, self._bound[row])

    def give_back(self, row: int) -> None:
        """Record that the pod for which a node was chosen is not going there: it is retried, or gone."""
        self._taken[row] = False
        self._bound[row] = self._worth[row] + self._gain
