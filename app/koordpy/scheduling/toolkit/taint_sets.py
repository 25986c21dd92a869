"""The distinct sets of taints in a cluster, of which there are few.

Each gets a number, cached per node until the node changes, and a pod's tolerations are matched against the
sets, not against the nodes.
"""

from collections.abc import Callable, Sequence

import numpy as np

from koordpy.api.core import Node, Taint
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet, NodeTable

from .node_memo import NodeMemo


class TaintSets:
    """The distinct sets of taints of nodes, numbered from 1; 0 is a node without taints."""

    def __init__(self, table: NodeTable) -> None:
        self.sets: list[Sequence[Taint]] = [()]
        self._numbers: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._memo = NodeMemo(table, self._number_of, np.int64)

    def of(self, nodes: NodeSet) -> Int64:
        """Return (n,) the number of each node's set."""
        return self._memo.of(nodes)

    def each(self, numbers: Int64, answer: Callable[[Sequence[Taint]], int]) -> Int64:
        """Return (n,) the answers for the sets with these numbers (n,), evaluating each set once."""
        answers = np.zeros(len(self.sets), np.int64)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            answers[number] = answer(self.sets[number])
        return answers[numbers]

    def _number_of(self, node: Node) -> int:
        taints = node.spec.taints
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.sets)
            self.sets.append(taints)
        return number
