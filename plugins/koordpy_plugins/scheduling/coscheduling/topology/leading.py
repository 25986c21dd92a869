"""Nodes as they would be with the first members of a gang on them, a number of its own for each node."""

from collections.abc import Iterator, Sequence

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.overlay import Move, Overlay, VisiblePods


class LeadingMembers:
    """The members in order, and the n nodes of a set without them."""

    def __init__(self, nodes: NodeSet, members: Sequence[Pod]) -> None:
        table, base = nodes.table, nodes.overlay
        self._nodes, self._members = nodes, members
        shares = [table.share_of(pod) for pod in members]
        requested = table.requested[nodes.rows] if base is None else base.requested
        self._requested = requested
        self._nonzero = table.nonzero_requested[nodes.rows] if base is None else base.nonzero_requested
        width = requested.shape[1]
        # What the first members request together: a row for every number of them.
        self._sums = np.zeros((len(members) + 1, width), np.int64)
        self._nonzero_sums = np.zeros((len(members) + 1, 2), np.int64)
        for place, (columns, amounts, nonzero) in enumerate(shares, 1):
            self._sums[place] = self._sums[place - 1]
            self._nonzero_sums[place] = self._nonzero_sums[place - 1] + np.array(nonzero, np.int64)
            for column, amount in zip(columns, amounts, strict=True):
                if column < width:  # no node offers resources that were first named later
                    self._sums[place, column] += amount

    def on(self, at: Int64, numbers: Int64) -> NodeSet:
        """Return the nodes at some indexes (k,) with the first `numbers` (k,) members on them."""
        nodes = self._nodes.pick(at)
        base = self._nodes.overlay
        pods = _LeadingPods(nodes, None if base is None else base.pods, self._members, numbers)
        overlay = Overlay(
            self._requested[at] + self._sums[numbers], self._nonzero[at] + self._nonzero_sums[numbers], pods
        )
        return NodeSet(nodes.table, nodes.names, nodes.rows, overlay)

    def fitting(self, at: Int64, begin: int, end: int) -> Int64:
        """(k,) how many members the free resources of nodes suffice for, if all are like those from `begin`.

        This ignores everything but resources. The nodes have the first `begin` members on them.
        """
        each = self._sums[begin + 1] - self._sums[begin]
        needed = np.flatnonzero(each > 0)
        allocatable = self._nodes.table.allocatable[self._nodes.rows[at]][:, needed]
        free = allocatable - self._requested[at][:, needed] - self._sums[begin, needed]
        most = np.full(len(at), end - begin, np.int64)
        if len(needed):
            most = np.minimum(most, (free // each[needed]).min(axis=1))
        return np.clip(most, 0, end - begin)


class _LeadingPods(VisiblePods):
    """The pods of nodes that have the first members on them, by row."""

    def __init__(
        self, nodes: NodeSet, base: VisiblePods | None, members: Sequence[Pod], numbers: Int64
    ) -> None:
        self._nodes, self._base, self._members, self._numbers = nodes, base, members, numbers
        self._of_row: dict[int, int] | None = None

    @property
    def _number_of(self) -> dict[int, int]:
        if self._of_row is None:
            rows = self._nodes.rows.tolist()
            pairs = zip(rows, self._numbers.tolist(), strict=True)
            self._of_row = {row: number for row, number in pairs if number}
        return self._of_row

    def __getitem__(self, row: int) -> Sequence[Pod]:
        number = self._number_of.get(row, 0)
        seen = None if self._base is None else self._base.get(row)
        if not number:
            if seen is None:
                raise KeyError(row)
            return seen
        there = self._nodes.table.pods_on(row) if seen is None else seen
        return [*there, *self._members[:number]]

    def __contains__(self, row: object) -> bool:
        return row in self._number_of or (self._base is not None and row in self._base)

    def __iter__(self) -> Iterator[int]:
        return iter({**self._number_of, **dict.fromkeys(self._base or ())})

    def __len__(self) -> int:
        return len({**self._number_of, **dict.fromkeys(self._base or ())})

    def moves(self) -> Iterator[Move]:
        """Yield the members of every node."""
        if self._base is not None:
            yield from self._base.moves()
        for row, number in self._number_of.items():
            for pod in self._members[:number]:
                yield Move(row, pod, 1)

    @property
    def has_more(self) -> bool:
        """Whether any node has a member."""
        return bool(self._number_of) or (self._base is not None and self._base.has_more)
