"""Coscheduling: pods of a gang are scheduled together, or none of them.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling`.
"""

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_name
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    Binding,
    Permit,
    Plugin,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    Reserve,
    Score,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Status

from .args import CoschedulingArgs


class Coscheduling(
    Plugin, PreEnqueue, PreFilter, PostFilter, PreScore, Score, Reserve, Permit, PreBind, PostBind
):
    """Lets the pods of a gang wait for each other."""

    name = "Coscheduling"
    args: CoschedulingArgs

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)

    def may_refuse(self, pod: Pod) -> bool:
        """Pods without a gang are never held back."""
        return bool(gang_name(pod))

    def pre_enqueue(self, pod: Pod) -> Status:
        """Let every pod pass."""
        return SUCCESS

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Leave all nodes."""
        return None, Status.skip()

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Leave it to the next plugin."""
        return None, Status.unschedulable()

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Score nothing."""
        return Status.skip()

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Score all nodes alike."""
        return np.zeros(len(nodes), np.int64)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Allocate nothing."""
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Release nothing."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Let every pod pass."""
        return SUCCESS

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Add nothing to the binding."""
        return SUCCESS

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Record nothing."""
