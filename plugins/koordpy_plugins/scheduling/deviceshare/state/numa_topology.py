"""On which NUMA nodes the devices of a node are.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/numa_topology.go`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from koordpy.api.device import DeviceInfo

NO_AFFINITY: Final = -1
"""The NUMA node of a device that is not near any."""


@dataclass(frozen=True, slots=True)
class NUMATopology:
    """`nodes` are the NUMA nodes with devices, ascending; `node_of` has the NUMA node by type and minor."""

    nodes: tuple[int, ...] = ()
    node_of: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


def topology_of(infos: Iterable[DeviceInfo]) -> NUMATopology:
    """Return the NUMA nodes of devices whose place is known."""
    node_of: dict[str, dict[int, int]] = {}
    for info in infos:
        place = info.topology
        if place is not None and place.node_id != NO_AFFINITY:
            node_of.setdefault(info.type, {})[info.minor or 0] = place.node_id
    nodes = {node for by_minor in node_of.values() for node in by_minor.values()}
    return NUMATopology(tuple(sorted(nodes)), node_of)
