"""Nodes on which an attempt sees more than what is allocated.

What pods have of reservations is allocated twice, to them and to the reserve pods. Where no reservation
matches the pod, that is a matter of amounts. Where some do, there are several offers (see `offers`). Nodes of
which preemption has removed pods are evaluated by themselves.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from koordpy.cluster.columns import Bool
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.toolkit.restored_nodes import RestoredNodes

from ..reservations.reusable import NodeReusable
from ..state.columns import NUMA_NODES, CPURows
from .lent import Lent
from .node_offers import can_offer


@dataclass(frozen=True, slots=True)
class Special:
    """Those of n nodes: (n,) which are evaluated by themselves, and by position what reservations hold."""

    alone: Bool
    lending: Mapping[int, NodeReusable] = field(default_factory=dict)
    """None of their reservations is for the pod, but what owners of these use is allocated twice."""
    offering: Mapping[int, NodeReusable] = field(default_factory=dict)
    """They have reservations for the pod."""

    @classmethod
    def of(
        cls,
        nodes: NodeSet,
        restored: RestoredNodes[NodeReusable],
        preemptible: Set[str],
        *,
        uses_offers: bool,
    ) -> "Special":
        """Tell nodes with reservations apart; `preemptible` nodes are evaluated by themselves in any case.

        `uses_offers` is whether the pod takes one reservation, as ordinary pods do.
        """
        lending: dict[int, NodeReusable] = {}
        offering: dict[int, NodeReusable] = {}
        alone = np.zeros(len(nodes), np.bool_)
        alone[list(nodes.positions_of(preemptible))] = True
        for at, reusable in restored.among(nodes).items():
            if alone[at]:
                continue
            if not reusable.matched and reusable.pre_allocation is None:
                lending[at] = reusable
            elif uses_offers and can_offer(reusable):
                offering[at] = reusable
            else:
                alone[at] = True
        return cls(alone, lending, offering)

    def lend(self, rows: CPURows) -> tuple[CPURows, Bool]:
        """Return the columns of nodes as if nothing was allocated twice, and (n,) where they cannot tell."""
        unknown = np.zeros(len(self.alone), np.bool_)
        if not self.lending:
            return rows, unknown
        at = list(self.lending)
        zones = rows.number("zones")[at].tolist()
        lent = [
            Lent.of_owners(reusable, mask, rows.resources)
            for reusable, mask in zip(self.lending.values(), zones, strict=True)
        ]
        amounts = np.zeros((len(self.alone), len(rows.resources), NUMA_NODES), np.int64)
        amounts[at] = [each.amounts for each in lent]
        named = np.array([each.named for each in lent])
        unknown[at] = [not each.is_exact for each in lent]
        unknown[at] |= (named & ~rows.pick(np.array(at)).offered).any(axis=(1, 2))
        return rows.lending(amounts), unknown
