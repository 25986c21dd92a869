"""The scheduling side: nodes outside a pod's zones, or in a closed zone, are refused.

Both refusals are unresolvable: evicting pods moves no node into another zone.
"""

from koordpy.api.core import Pod
from koordpy.api.plugin import PluginArgs
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import Filter, Plugin, PreFilter
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from . import zones

OUTSIDE = "node(s) were outside the pod's zones"
CLOSED = "node(s) were in a closed zone"

_ZONES: StateKey[frozenset[str]] = StateKey("zone-guard.example.com/zones")


class ZoneGuardArgs(PluginArgs):
    """`closedZones`: zones that no new pod may enter, whatever its annotation says."""

    closed_zones: list[str] = []


class ZoneGuard(Plugin, PreFilter, Filter):
    """Refuses nodes by their zone."""

    name = "ZoneGuard"
    args: ZoneGuardArgs

    def __init__(self, args: ZoneGuardArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.closed = frozenset(args.closed_zones)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Read the pod's annotation once; with nothing to guard, skip the nodes too."""
        allowed = zones.read(pod.metadata.annotations)
        if allowed is not None:
            state.write(_ZONES, allowed)
        return None, SUCCESS if allowed is not None or self.closed else Status.skip()

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Compare the node's zone with the closed ones and with the pod's."""
        zone = node.node.metadata.labels.get(zones.NODE_LABEL, "")
        if zone in self.closed:
            return Status.unresolvable(CLOSED)
        allowed = state.read(_ZONES)
        if allowed is not None and zone not in allowed:
            return Status.unresolvable(OUTSIDE)
        return SUCCESS
