"""Cordoned nodes accept only pods that tolerate it.

Source: Kubernetes, `framework/plugins/nodeunschedulable`.
"""

import numpy as np

from koordpy.api.core import Pod, Taint
from koordpy.api.plugin import PluginArgs
from koordpy.api.taints import NO_SCHEDULE, tolerated
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    Filter,
    Plugin,
    Reach,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import PASS, Code, Verdict
from koordpy.scheduling.toolkit.node_memo import NodeMemo

REASON = "node(s) were unschedulable"

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeUnschedulable(Plugin, Filter, SignPlugin):
    """Refuses nodes with `spec.unschedulable`, unless the pod tolerates the taint of that name."""

    name = "NodeUnschedulable"
    reach = Reach.NOWHERE
    reads_requests = False

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cordoned = NodeMemo(handle.nodes, lambda node: node.spec.unschedulable, np.bool_)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Check the cordon, then the tolerations."""
        cordoned = self._cordoned.of(nodes).astype(np.bool_)
        if not cordoned.any() or tolerated(pod.spec.tolerations, _UNSCHEDULABLE):
            return PASS
        return Verdict.reject(cordoned, REASON, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
