"""The point that chooses NUMA nodes within a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koordpy.api.core import Pod

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


class NUMATopologyHintProvider:
    """Provides NUMA hints for a pod on a node, and allocates within the chosen affinity."""

    def pod_topology_hints(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]:
        """Return hints by resource: None for no preference, an empty list if it cannot be satisfied."""
        raise NotImplementedError

    def has_numa_hints(self, state: CycleState, pod: Pod) -> bool:
        """Return whether it may have hints for a pod, or refuse an affinity, on any node.

        If no provider but one has, that one may find the affinities of all nodes at once.
        """
        return True

    def allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        """Check (and store for Reserve) an allocation within an affinity."""
        raise NotImplementedError
