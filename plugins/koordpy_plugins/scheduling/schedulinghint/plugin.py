"""Pods may name the only nodes for them, and the nodes to try first.

Another scheduler, or a batch system that plans ahead, writes the hint; it saves the evaluation of other
nodes. Source: Koordinator, `pkg/scheduler/plugins/schedulinghint`.
"""

from collections.abc import Hashable, Sequence

from koordpy.api.core import Pod
from koordpy.api.needs import Needs
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    BeforePreFilter,
    Plugin,
    PreferNodes,
    PreFilter,
    Reach,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT

from .annotation import has_hint, hint_of
from .args import SchedulingHintArgs


class SchedulingHint(Plugin, BeforePreFilter, PreFilter, PreferNodes, SignPlugin):
    """Reads the hint, restricts PreFilter to its nodes, and names its preferred nodes in order."""

    name = "SchedulingHint"
    reach = Reach.NOWHERE
    reads_requests = False
    args: SchedulingHintArgs
    needs = Needs(
        elsewhere=(
            "percentageOfNodesToScore: 100 in kube-scheduler's profile: "
            "a hinted node may not be among the candidates otherwise",
        )
    )

    def __init__(self, args: SchedulingHintArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._most = args.max_hint_nodes

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """A pod with a hint has its own nodes."""
        return None if has_hint(pod) else ()

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        """Read the pod's annotation, which takes precedence over a hint of another plugin for the attempt."""
        try:
            hint = hint_of(pod)
        except ValueError as error:
            return None, Status.failed(error)
        if hint is not None:
            state.write(SCHEDULING_HINT, hint)
        return None, SUCCESS

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Allow only the hint's nodes, if it names any."""
        hint = state.read(SCHEDULING_HINT)
        if hint is None or not hint.pre_filter_nodes:
            return None, SUCCESS
        return frozenset(hint.pre_filter_nodes), SUCCESS

    def prefer_nodes(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[Sequence[str], Status]:
        """Return the first preferred nodes, up to the maximum, without those that PreFilter excluded."""
        hint = state.read(SCHEDULING_HINT)
        preferred: Sequence[str] = () if hint is None else hint.preferred_nodes[: self._most]
        if node_names is not None:
            preferred = [name for name in preferred if name in node_names]
        return (preferred, SUCCESS) if preferred else ((), Status.skip())
