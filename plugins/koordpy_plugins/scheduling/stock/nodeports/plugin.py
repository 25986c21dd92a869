"""Two pods cannot use the same host port of a node. Source: Kubernetes, `framework/plugins/nodeports`."""

from collections import defaultdict

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.plugin import PluginArgs
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    Filter,
    Plugin,
    PreFilter,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict

from .host_ports import HostPort, UsedPorts, host_ports

REASON = "node(s) didn't have free ports for the requested pod ports"


class _Moved(dict[int, set[HostPort]]):
    """The ports in use, by row, where pods were moved hypothetically."""

    def clone(self) -> "_Moved":
        return _Moved({row: set(ports) for row, ports in self.items()})


_MOVED: StateKey[_Moved] = StateKey("MovedNodePorts")


class NodePorts(Plugin, PreFilter, Filter, SignPlugin):
    """Refuses nodes on which a host port of the pod is in use."""

    name = "NodePorts"
    reads_requests = False
    node_local = True

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
        if not any(host_ports(pod)):
            return None, Status.skip()
        return None, SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Add the ports of another pod."""
        self._move(state, node.row).update(host_ports(added))
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Free the ports of a pod, also those that others have too: kube-scheduler counts none twice."""
        self._move(state, node.row).difference_update(host_ports(removed))
        return SUCCESS

    def _move(self, state: CycleState, row: int) -> set[HostPort]:
        """Return the ports in use on a row in this state, to be changed."""
        moved = state.read(_MOVED)
        if moved is None:
            moved = _Moved()
            state.write(_MOVED, moved)
        if row not in moved:
            used = self._used.get(row)
            moved[row] = set() if used is None else set(used.ports)
        return moved[row]

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Check the ports in use on each node that has any."""
        wanted = list(host_ports(pod))
        refused = np.zeros(len(nodes), np.bool_)
        shown = nodes.overlay.pods if nodes.overlay is not None else {}
        moved = state.read(_MOVED) or _Moved()
        for index, row in enumerate(nodes.rows.tolist()):
            if row in moved:
                used = UsedPorts(moved[row])
                for other in filter(is_reserve_pod, shown.get(row, ())):
                    used.add(other)
            elif row in shown:
                used = UsedPorts()
                for other in shown[row]:
                    used.add(other)
            elif row in self._used:
                used = self._used[row]
            else:
                continue
            refused[index] = any(map(used.conflicts, wanted))
        return Verdict.reject(refused, REASON)
