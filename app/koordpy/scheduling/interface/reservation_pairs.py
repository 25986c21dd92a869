"""Pairs of pods and reservations on nodes: the input of the batch forms of the reservation points.

For an ordinary pod the pairs are the pod with each reservation that it may use. For a Reservation that takes
over running pods they are each of these pods with the Reservation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib import runs

from .node_info import NodeInfo
from .reservation_info import ReservationInfo


@dataclass(frozen=True, slots=True)
class ReservationPairs:
    """k pairs of a pod and a reservation, each on a node; grouped by node."""

    nodes: NodeSet
    """The nodes of the pairs, and possibly more; while nodes are filtered, as the attempt sees them."""
    at: Int64
    """(k,) the index of the node, ascending."""
    pods: Sequence[Pod]
    reservations: Sequence[ReservationInfo]

    @classmethod
    def of_pod(cls, pod: Pod, reservations: Sequence[ReservationInfo], node: NodeInfo) -> "ReservationPairs":
        """Return a pod with reservations of one node."""
        count = len(reservations)
        return cls(node.nodes, np.full(count, node.index, np.int64), [pod] * count, reservations)

    @classmethod
    def of_reservation(
        cls, reservation: ReservationInfo, pods: Sequence[Pod], node: NodeInfo
    ) -> "ReservationPairs":
        """Return running pods of one node with the reservation that may take them over."""
        count = len(pods)
        return cls(node.nodes, np.full(count, node.index, np.int64), pods, [reservation] * count)

    def __len__(self) -> int:
        return len(self.at)

    def __iter__(self) -> Iterator[tuple[Pod, ReservationInfo, NodeInfo]]:
        """Yield the pairs one by one, with their nodes."""
        for pod, reservation, index in zip(self.pods, self.reservations, self.at.tolist(), strict=True):
            yield pod, reservation, NodeInfo(self.nodes, index)

    @property
    def rows(self) -> Int64:
        """(k,) the rows of the nodes in the node table."""
        rows: Int64 = self.nodes.rows[self.at]
        return rows

    @property
    def first(self) -> Int64:
        """(g,) the positions at which the pairs of each node begin."""
        return runs.starts(self.at)

    def by_node(self) -> Iterator["ReservationPairs"]:
        """Yield the pairs of each of the nodes, also of those that have none."""
        bounds = np.searchsorted(self.at, np.arange(len(self.nodes) + 1)).tolist()
        for begin, end in pairwise(bounds):
            yield ReservationPairs(
                self.nodes, self.at[begin:end], self.pods[begin:end], self.reservations[begin:end]
            )

    def pick(self, positions: Int64) -> "ReservationPairs":
        """Return the pairs at these positions, which are ascending."""
        chosen = positions.tolist()
        return ReservationPairs(
            self.nodes,
            self.at[positions],
            [self.pods[i] for i in chosen],
            [self.reservations[i] for i in chosen],
        )
