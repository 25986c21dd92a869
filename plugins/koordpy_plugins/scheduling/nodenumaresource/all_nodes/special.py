"""Nodes on which an attempt sees more than what is allocated.

What pods have of reservations is allocated twice, to them and to the reserve pods. Where no reservation
matches the pod, that is a matter of amounts, for which there are arrays. Nodes with matched reservations, and
those of which preemption has removed pods, are evaluated by themselves.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet

from ..attempt.preemptible import NUMAResources
from ..reservations.reusable import NodeReusable
from ..state.columns import NUMA_NODES, CPURows, whole_amount


@dataclass(frozen=True, slots=True)
class Special:
    """Nodes by name: those that are evaluated by themselves; on others, what owners of reservations use."""

    alone: Collection[str] = ()
    owners_use: Mapping[str, NUMAResources] = field(default_factory=dict)

    @classmethod
    def of(cls, restored: Mapping[str, NodeReusable], preemptible: Collection[str]) -> "Special":
        """Tell nodes with reservations apart; `preemptible` nodes are evaluated by themselves in any case."""
        owners_use = {
            name: reusable.unmatched_used
            for name, reusable in restored.items()
            if not reusable.matched and reusable.pre_allocation is None and name not in preemptible
        }
        return cls({*(restored.keys() - owners_use.keys()), *preemptible}, owners_use)

    def are_alone(self, nodes: NodeSet) -> Bool:
        """(n,) which nodes are evaluated by themselves."""
        if not self.alone:
            return np.zeros(len(nodes), np.bool_)
        return np.array([name in self.alone for name in nodes.names], np.bool_)

    def lend(self, rows: CPURows, nodes: NodeSet) -> tuple[CPURows, Bool]:
        """Return the columns of nodes as if nothing was allocated twice, and (n,) where they cannot tell."""
        unknown = np.zeros(len(nodes), np.bool_)
        if not self.owners_use:
            return rows, unknown
        shape = (len(nodes), len(rows.resources), NUMA_NODES)
        amounts, named = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
        zones = rows.number("zones")
        for at, name in enumerate(nodes.names):
            used = self.owners_use.get(name)
            if used:
                unknown[at] = not _write(used, int(zones[at]), rows.resources, amounts[at], named[at])
        unknown |= (named & ~rows.offered).any(axis=(1, 2))
        return rows.lending(amounts), unknown


def _write(used: NUMAResources, zones: int, resources: tuple[str, ...], amounts: Int64, named: Bool) -> bool:
    """Write what owners use (R, K) of a node's NUMA nodes; return whether all fits in."""
    for numa_node, of_node in used.items():
        if numa_node >= NUMA_NODES or not zones >> numa_node & 1:
            continue
        for name, amount in of_node.items():
            number = whole_amount(name, amount)
            if number is None or number < 0 or name not in resources:
                return False
            cell = resources.index(name), numa_node
            amounts[cell], named[cell] = number, True
    return True
