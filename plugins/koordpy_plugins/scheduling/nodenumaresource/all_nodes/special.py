"""Nodes on which an attempt sees more than what is allocated.

What pods have of reservations is allocated twice, to them and to the reserve pods. Where no reservation
matches the pod, that is a matter of amounts. Where some do, there are several offers (see `offers`). Nodes of
which preemption has removed pods are evaluated by themselves.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from koordpy.cluster.columns import Bool
from koordpy.cluster.nodes import NodeSet

from ..reservations.reusable import NodeReusable
from ..state.columns import NUMA_NODES, CPURows
from .lent import Lent
from .offers import can_offer


@dataclass(frozen=True, slots=True)
class Special:
    """Nodes by name: those that are evaluated by themselves; on others, what reservations hold."""

    alone: Collection[str] = ()
    lending: Mapping[str, NodeReusable] = field(default_factory=dict)
    """None of their reservations is for the pod, but what owners of these use is allocated twice."""
    offering: Mapping[str, NodeReusable] = field(default_factory=dict)
    """They have reservations for the pod."""

    @classmethod
    def of(
        cls, restored: Mapping[str, NodeReusable], preemptible: Collection[str], *, uses_offers: bool
    ) -> "Special":
        """Tell nodes with reservations apart; `preemptible` nodes are evaluated by themselves in any case.

        `uses_offers` is whether the pod takes one reservation, as ordinary pods do.
        """
        lending: dict[str, NodeReusable] = {}
        offering: dict[str, NodeReusable] = {}
        alone = set(preemptible)
        for name, reusable in restored.items():
            if name in alone:
                continue
            if not reusable.matched and reusable.pre_allocation is None:
                lending[name] = reusable
            elif uses_offers and can_offer(reusable):
                offering[name] = reusable
            else:
                alone.add(name)
        return cls(alone, lending, offering)

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
