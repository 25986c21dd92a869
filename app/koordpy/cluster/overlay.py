"""What-ifs: how some nodes would look with more pods on them. Nobody else sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koordpy.api.core import Pod

from .columns import Int64


@dataclass(frozen=True, slots=True)
class Overlay:
    """What a NodeSet of n nodes shows instead of the table."""

    requested: Int64
    """(n, resources)"""
    nonzero_requested: Int64
    """(n, 2)"""
    pods: Mapping[int, Sequence[Pod]]
    """The pods of changed nodes, by row; other nodes have the table's."""

    def pick(self, indexes: Int64) -> "Overlay":
        """Return the same of the nodes at these positions."""
        return Overlay(self.requested[indexes], self.nonzero_requested[indexes], self.pods)
