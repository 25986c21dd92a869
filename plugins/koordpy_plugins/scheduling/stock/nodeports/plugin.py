"""Two pods cannot have the same port of a node. Source: Kubernetes, `framework/plugins/nodeports`."""

from collections import defaultdict

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.args import PluginArgs
from koordpy.scheduling.cycle_state import CycleState
from koordpy.scheduling.handle import Handle
from koordpy.scheduling.interface import Filter, Plugin, PreFilter
from koordpy.scheduling.status import SUCCESS, Status, Verdict

from .host_ports import UsedPorts, host_ports

REASON = "node(s) didn't have free ports for the requested pod ports"


class NodePorts(Plugin, PreFilter, Filter):
    """Refuses nodes on which a host port of the pod is taken."""

    name = "NodePorts"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._used: defaultdict[int, UsedPorts] = defaultdict(UsedPorts)
        handle.nodes.on_pods(self._place, self._displace)

    def _place(self, row: int, pod: Pod) -> None:
        if any(host_ports(pod)):
            self._used[row].add(pod)

    def _displace(self, row: int, pod: Pod) -> None:
        used = self._used.get(row)
        if used is not None:
            used.remove(pod)
            if not used:
                del self._used[row]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Skip pods without host ports."""
        return None, SUCCESS if any(host_ports(pod)) else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Look at the ports in use on each node that has any."""
        wanted = list(host_ports(pod))
        refused = np.zeros(len(nodes), np.bool_)
        shown = nodes.overlay.pods if nodes.overlay is not None else {}
        for index, row in enumerate(nodes.rows.tolist()):
            if row in shown:
                used = UsedPorts()
                for other in shown[row]:
                    used.add(other)
            elif row in self._used:
                used = self._used[row]
            else:
                continue
            refused[index] = any(map(used.conflicts, wanted))
        return Verdict.reject(refused, REASON)
