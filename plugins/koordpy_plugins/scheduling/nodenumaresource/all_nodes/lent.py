"""Amounts that do not count as allocated on a node, as cells of columns."""

from dataclasses import dataclass

import numpy as np

from koordpy.cluster.columns import Bool, Int64

from ..attempt.preemptible import NUMAResources
from ..reservations.reusable import NodeReusable
from ..state.columns import NUMA_NODES, whole_amount


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
        return reusable.kept((zones, resources), lambda known: cls.of(known.owners_use, zones, resources))

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
