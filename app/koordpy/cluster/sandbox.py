"""A private copy of nodes, from which pods can be removed and to which they can be added."""

from collections.abc import Collection

import numpy as np

from koordpy.api.core import Pod

from .columns import Int64
from .nodes import NodeSet
from .overlay import MovedPods, Overlay
from .shares import Share


class Sandbox:
    """The n nodes of a set, in its order; `nodes` always shows their current state."""

    def __init__(self, nodes: NodeSet) -> None:
        table, base = nodes.table, nodes.overlay
        self._table = table
        if base is None:
            self._requested = table.requested.take(nodes.rows, axis=0)
            self._nonzero = table.nonzero_requested.take(nodes.rows, axis=0)
        else:
            self._requested, self._nonzero = base.requested.copy(), base.nonzero_requested.copy()
        self._pods = MovedPods(table.pods_on, None if base is None else base.pods)
        self._rows = nodes.rows
        self._amounts: dict[int, tuple[Int64, Int64, Share]] = {}
        self.nodes = NodeSet(
            table, nodes.names, nodes.rows, Overlay(self._requested, self._nonzero, self._pods)
        )

    def take(self, index: int, pods: Collection[Pod]) -> None:
        """Remove pods from the node at an index; they must be on it."""
        row = int(self._rows[index])
        self._pods.take(row, list(pods))
        for pod in pods:
            self._count(index, pod, -1)

    def put_back(self, index: int, pod: Pod) -> None:
        """Put a removed pod back on the node at an index."""
        self._pods.add(int(self._rows[index]), [pod])
        self._count(index, pod, 1)

    def put(self, index: int, pod: Pod) -> None:
        """Put a new pod on the node at an index."""
        self._pods.add(int(self._rows[index]), [pod])
        self._count(index, pod, 1)

    def _count(self, index: int, pod: Pod, sign: int) -> None:
        requested, nonzero = self._amounts_of(pod)
        if sign > 0:
            self._requested[index] += requested
            self._nonzero[index] += nonzero
        else:
            self._requested[index] -= requested
            self._nonzero[index] -= nonzero

    def _amounts_of(self, pod: Pod) -> tuple[Int64, Int64]:
        """A pod's requests as rows; pods of one workload share one object."""
        share = self._table.share_of(pod)
        known = self._amounts.get(id(share))
        if known is None:
            columns, amounts, nonzero = share
            row = np.zeros(len(self._table.resources), np.int64)
            row[list(columns)] = amounts
            row = row[
                : self._requested.shape[1]
            ]  # no node offers resources first named after the sandbox was made
            known = self._amounts[id(share)] = row, np.array(nonzero, np.int64), share
        return known[:2]
