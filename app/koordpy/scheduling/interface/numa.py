"""The point that chooses NUMA nodes within a node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet

from .cycle_state import CycleState
from .node_info import NodeInfo
from .status import Status


@dataclass(frozen=True, slots=True)
class NUMATopologyHint:
    """A set of NUMA nodes that can provide a resource. `affinity` is a bitmask, None means any."""

    affinity: int | None
    preferred: bool = False
    unsatisfied: bool = False
    score: int = 0


@lru_cache(maxsize=4096)
def shared_hint(affinity: int, preferred: bool, score: int) -> NUMATopologyHint:
    """Return a hint, for equal ones the same object: nodes with 8 NUMA nodes have hundreds of hints."""
    return NUMATopologyHint(affinity, preferred, score=score)


NUMATopologyHints = tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]
"""Hints by resource, or why there are none; see `NUMATopologyHintProvider.pod_topology_hints`."""


Checked = tuple[Int64, Sequence[Status]]
"""Statuses of nodes: (n,) indexes into them."""


@dataclass(frozen=True, slots=True)
class NUMAHintGroups:
    """Nodes for which a provider has the same hints."""

    numbers: Int64
    """(n,) the group of each node, -1 for a node that must be asked about by itself."""
    hints: Sequence[NUMATopologyHints]
    """By group."""
    check: Callable[[Int64, Int64], Checked]
    """Answers as `allocate` does, for nodes at positions (m,) that have groups, and the masks of affinities
    (m,), -1 for no NUMA nodes in particular."""

    def pick(self, at: Int64) -> "NUMAHintGroups":
        """Return the groups of some of the nodes."""
        return NUMAHintGroups(self.numbers[at], self.hints, lambda nodes, masks: self.check(at[nodes], masks))

    def with_others(self, others: "NUMAHintGroups") -> "NUMAHintGroups":
        """Return the groups with those of others, which come first for nodes that have both."""
        is_other = others.numbers >= 0

        def check(nodes: Int64, masks: Int64) -> Checked:
            found, statuses = np.zeros(len(nodes), np.int64), list[Status]()
            for groups, here in ((self, ~is_other[nodes]), (others, is_other[nodes])):
                at = np.flatnonzero(here)
                if len(at):
                    keys, of_groups = groups.check(nodes[at], masks[at])
                    found[at] = keys + len(statuses)
                    statuses += of_groups
            return found, statuses

        numbers = np.where(is_other, others.numbers + len(self.hints), self.numbers)
        return NUMAHintGroups(numbers, [*self.hints, *others.hints], check)


class NUMATopologyHintProvider:
    """Provides NUMA hints for a pod on a node, and allocates within the chosen affinity."""

    def pod_topology_hints(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]:
        """Return hints by resource: None for no preference, an empty list if it cannot be satisfied."""
        raise NotImplementedError

    def has_numa_hints(self, state: CycleState, pod: Pod) -> bool:
        """Return whether it may have hints for a pod, or refuse an affinity, on any node.

        Providers that have none are not asked about all nodes.
        """
        return True

    def numa_hint_groups(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NUMAHintGroups | None:
        """Return which nodes are alike; None if each must be asked about by itself."""
        return None

    def allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        """Check (and store for Reserve) an allocation within an affinity."""
        raise NotImplementedError
