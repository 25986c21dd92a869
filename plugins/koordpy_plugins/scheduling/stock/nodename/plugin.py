"""A pod with a node name fits only there. Source: Kubernetes, `framework/plugins/nodename`."""

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    Filter,
    Plugin,
    Reach,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import PASS, Code, Verdict

REASON = "node(s) didn't match the requested node name"


class NodeName(Plugin, Filter, SignPlugin):
    """Refuses all nodes but the one in `spec.nodeName`, if it is set."""

    name = "NodeName"
    reach = Reach.NOWHERE
    reads_requests = False

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Compare names."""
        wanted = pod.spec.node_name
        if not wanted:
            return PASS
        others = np.fromiter((name != wanted for name in nodes.names), np.bool_, len(nodes))
        return Verdict.reject(others, REASON, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
