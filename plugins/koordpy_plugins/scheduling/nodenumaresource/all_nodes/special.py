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
    """Nodes by name: those that are evaluated by themselves; on others, what reservations hold."""

    alone: Collection[str] = ()
    lending: Mapping[str, NodeReusable] = field(default_factory=dict)
    """None of their reservations is for the pod, but what owners of these use is allocated twice."""

    @classmethod
    def of(cls, restored: Mapping[str, NodeReusable], preemptible: Collection[str]) -> "Special":
        """Tell nodes with reservations apart; `preemptible` nodes are evaluated by themselves in any case."""
        lending = {
            name: reusable
            for name, reusable in restored.items()
            if not reusable.matched and reusable.pre_allocation is None and name not in preemptible
        }
        return cls({*(restored.keys() - lending.keys()), *preemptible}, lending)

    def are_alone(self, nodes: NodeSet) -> Bool:
        """(n,) which nodes are evaluated by themselves."""
        if not self.alone:
            return np.zeros(len(nodes), np.bool_)
        return np.array([name in self.alone for name in nodes.names], np.bool_)

    def lend(self, rows: CPURows, nodes: NodeSet) -> tuple[CPURows, Bool]:
        """Return the columns of nodes as if nothing was allocated twice, and (n,) where they cannot tell."""
        unknown = np.zeros(len(nodes), np.bool_)
        if not self.lending:
            return rows, unknown
        at = [index for index, name in enumerate(nodes.names) if name in self.lending]
        zones = rows.number("zones")[at].tolist()
        lent = [
            Lent.of_owners(self.lending[nodes.names[index]], mask, rows.resources)
            for index, mask in zip(at, zones, strict=True)
        ]
        amounts = np.zeros((len(nodes), len(rows.resources), NUMA_NODES), np.int64)
        if lent:
            amounts[at] = [each.amounts for each in lent]
            named = np.array([each.named for each in lent])
            unknown[at] = [not each.is_exact for each in lent]
            unknown[at] |= (named & ~rows.offered[at]).any(axis=(1, 2))
        return rows.lending(amounts), unknown


@dataclass(frozen=True, slots=True)
class Lent:
    """(R, K) amounts of NUMA nodes that do not count as allocated, and which are named at all."""

    amounts: Int64
    named: Bool
    is_exact: bool = True
    """Whether that is all of it."""

    @classmethod
    def of_owners(cls, reusable: NodeReusable, zones: int, resources: tuple[str, ...]) -> "Lent":
        """Return what owners use of a node's reservations. It is kept with what they hold."""
        key = (zones, resources)
        known = reusable.lent.get(key)
        if known is None:
            reusable.lent.clear()
            known = reusable.lent[key] = cls.of(reusable.owners_use, zones, resources)
        return known

    @classmethod
    def of(cls, used: NUMAResources, zones: int, resources: tuple[str, ...]) -> "Lent":
        """Return amounts on the NUMA nodes `zones`, a mask; others have nothing that could be lent."""
        shape = (len(resources), NUMA_NODES)
        amounts, named = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
        for numa_node, of_node in used.items():
            if numa_node >= NUMA_NODES or not zones >> numa_node & 1:
                continue
            for name, amount in of_node.items():
                number = whole_amount(name, amount)
                if number is None or number < 0 or name not in resources:
                    return cls(amounts, named, is_exact=False)
                cell = resources.index(name), numa_node
                amounts[cell], named[cell] = number, True
        return cls(amounts, named)
