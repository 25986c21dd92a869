"""One node as a plugin sees it: a per-node view of the node table, for plugins that work node by node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from koordpy.api.core import Node, Pod
from koordpy.cluster.columns import PODS
from koordpy.cluster.nodes import NodeSet


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node of a NodeSet. Amounts are milli-CPU for cpu and base units for everything else."""

    nodes: NodeSet
    index: int

    def alone(self) -> "NodeInfo":
        """Return the node as the only one of a set."""
        return NodeInfo(self.nodes.pick(np.array([self.index])), 0)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.nodes.names[self.index]

    @property
    def row(self) -> int:
        """The node's row in the table."""
        return int(self.nodes.rows[self.index])

    @property
    def node(self) -> Node:
        """The Node object."""
        node = self.nodes.table.node(self.row)
        if node is None:
            raise LookupError(f"node {self.name} is gone")
        return node

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods on the node, assumed ones included."""
        return list(self.nodes.pods_on(self.row))

    def allocatable(self, resource: str) -> int:
        """Return how much of a resource pods may request in total; 0 if the node has none."""
        column = self.nodes.table.resources.get(resource)
        return 0 if column is None else int(self.nodes.table.allocatable[self.row, column])

    def requested(self, resource: str) -> int:
        """Return how much of a resource the pods on the node request."""
        column = self.nodes.table.resources.get(resource)
        if column is None:
            return 0
        return int(self._requested_row[column])

    @property
    def pod_count(self) -> int:
        """The number of pods on the node."""
        return int(self._requested_row[PODS])

    @property
    def _requested_row(self) -> Sequence[int]:
        overlay = self.nodes.overlay
        row: Sequence[int] = (
            self.nodes.table.requested[self.row] if overlay is None else overlay.requested[self.index]
        )
        return row


def each(nodes: NodeSet) -> Iterator[NodeInfo]:
    """Return the nodes of a set one by one."""
    return (NodeInfo(nodes, index) for index in range(len(nodes)))
