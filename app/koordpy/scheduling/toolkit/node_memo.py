"""Values computed from a Node object, cached until the object changes.

Filters on labels or taints cannot be array operations, but their answer for a node stays the same while the
node is unchanged. A memo holds one number per row of the node table with the generation for which it is
valid, so that a repeated query for 5,000 unchanged nodes costs two array lookups.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from koordpy.api.core import Node
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.lib.deep_size import deep_size

MAX_BYTES = 8 << 20
"""The budget of a `MemoCache`: a memo per workload being scheduled, and node, takes 9 to 16 bytes."""


class NodeMemo:
    """One number per node, computed by `answer` on demand if the node is new or changed."""

    __slots__ = ("_answer", "_complete_at", "_generation", "_table", "_values")

    def __init__(self, table: NodeTable, answer: Callable[[Node], int], dtype: DTypeLike = np.int64) -> None:
        self._table = table
        self._answer = answer
        self._generation = np.full(table.capacity, -1, np.int64)
        self._values: NDArray[np.int64] = np.zeros(table.capacity, dtype)
        self._complete_at = -1
        """The latest generation of nodes when all of them were known."""

    @property
    def bytes(self) -> int:
        """The memory of the numbers."""
        return self._generation.nbytes + self._values.nbytes

    def of(self, nodes: NodeSet) -> NDArray[np.int64]:
        """Return (n,) the answers for the nodes of a set."""
        rows = nodes.rows
        latest = self._table.latest_generation
        if latest == self._complete_at:
            return self._values.take(rows)
        if len(self._generation) < self._table.capacity:
            grown = self._table.capacity - len(self._generation)
            self._generation = np.concatenate([self._generation, np.full(grown, -1, np.int64)])
            self._values = np.concatenate([self._values, np.zeros(grown, self._values.dtype)])
        current = self._table.generation.take(rows)
        stale = self._generation.take(rows) != current
        if np.count_nonzero(stale):
            for row in rows[stale].tolist():
                node = self._table.node(row)
                self._values[row] = 0 if node is None else self._answer(node)
            self._generation[rows] = current
            every = self._table.all().rows
            if np.array_equal(self._generation[every], self._table.generation[every]):
                self._complete_at = latest
        return self._values.take(rows)


class MemoCache:
    """Memos by requesting object; the least recently used ones are dropped beyond a budget of bytes."""

    def __init__(self, table: NodeTable, dtype: DTypeLike = np.int64, max_bytes: int = MAX_BYTES) -> None:
        self._table, self._dtype = table, dtype
        self._memos: BoundedLru[int, tuple[object, NodeMemo]] = BoundedLru("node_memos", max_bytes)

    def of(self, asker: object, answer: Callable[[Node], int]) -> NodeMemo:
        """Return the memo of `asker` (by identity; it is kept alive), made with `answer` the first time."""
        known = self._memos.get(id(asker))
        if known is not None:
            return known[1]
        memo = NodeMemo(self._table, answer, self._dtype)
        size = 500 + memo.bytes + deep_size(asker, self._memos.largest)
        self._memos.put(id(asker), (asker, memo), size)
        return memo
