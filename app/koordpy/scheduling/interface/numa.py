"""The point that agrees on NUMA nodes within a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koordpy.api.core import Pod

from .cycle_state import CycleState
from .node_info import NodeInfo
from .status import Status


@dataclass(frozen=True, slots=True)
class NUMATopologyHint:
    """A set of NUMA nodes on which a resource can be had. `affinity` is a bitmask, None means any."""

    affinity: int | None
    preferred: bool = False
    unsatisfied: bool = False
    score: int = 0


class NUMATopologyHintProvider:
    """Says where on a node a pod's resources can be had, and takes them there."""

    def pod_topology_hints(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]:
        """Return hints by resource: None does not care, an empty list cannot be satisfied."""
        raise NotImplementedError

    def allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        """Check (and remember for Reserve) an allocation within an affinity."""
        raise NotImplementedError
