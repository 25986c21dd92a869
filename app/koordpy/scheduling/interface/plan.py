"""A plan for the pods of a job: what FindOneNode may return.

Source: Koordinator's `BatchScheduleResult` (`pkg/scheduler/frameworkext/interface.go`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koordpy.api.core import Pod

from .cycle_state import StateKey


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod and its planned node."""

    pod: Pod
    node_name: str


class PlacementPlan:
    """The pods of a job with the node of each, the pod of the attempt among them.

    A plan reserves and allocates nothing: it only names the node on which each pod is tried. Raises
    ValueError for a pod without a node, and for one that is planned twice.
    """

    __slots__ = ("node_of", "pods")

    def __init__(self, pods: Sequence[PlannedPod]) -> None:
        self.pods = tuple(pods)
        node_of: dict[str, str] = {}
        for planned in self.pods:
            meta = planned.pod.metadata
            if not planned.node_name:
                raise ValueError(f"placement plan: no node for pod {meta.key}")
            if meta.uid in node_of:
                raise ValueError(f"placement plan: pod {meta.key} is planned twice")
            node_of[meta.uid] = planned.node_name
        self.node_of: Mapping[str, str] = node_of
        """The nodes by the pods' UIDs."""

    def __repr__(self) -> str:
        nodes = ", ".join(f"{each.pod.metadata.key} on {each.node_name}" for each in self.pods)
        return f"PlacementPlan({nodes})"


PLAN: StateKey[PlacementPlan] = StateKey("koordpy.dev/placement-plan")
"""The plan that FindOneNode made in this attempt."""

PLANNED_NODE: StateKey[str] = StateKey("koordpy.dev/planned-node")
"""The node that an earlier, still valid plan has for the pod of this attempt."""
