"""The places of a node's GPUs as a tree: the node, its NUMA nodes, their PCIe switches.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/allocator_gpu_helper.go` (GetGPUTopologyScope).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koordpy.api.device import DeviceInfo

from .exact import Exact
from .minors import bits_of

LEVELS: Final[Mapping[str, int]] = {"Device": 4, "PCIe": 3, "NUMANode": 2, "Node": 1}
"""The scopes that a pod can require; no tree has a scope of a single device."""


@dataclass(frozen=True, slots=True)
class Scope:
    """GPUs of one place. `totals` are as of the last Device, and empty for unhealthy GPUs."""

    level: int
    minors: tuple[int, ...]
    bits: int
    totals: Mapping[int, Exact]
    children: tuple["Scope", ...] = ()


def tree_of(infos: Sequence[DeviceInfo], totals: Mapping[int, Exact]) -> Scope | None:
    """Return the tree of a node's GPUs; None if there are none, or the place of one is unknown."""
    places: dict[int, dict[str, set[int]]] = {}
    for info in infos:
        if info.topology is None:
            return None
        switches = places.setdefault(info.topology.node_id, {})
        switches.setdefault(info.topology.pcie_id, set()).add(info.minor or 0)
    if not places:
        return None
    numa_nodes = []
    for numa_node in sorted(places):
        switches = places[numa_node]
        children = tuple(_scope("PCIe", switches[pcie], totals) for pcie in sorted(switches))
        numa_nodes.append(_scope("NUMANode", set().union(*switches.values()), totals, children))
    return _scope("Node", totals, totals, tuple(numa_nodes))


def _scope(
    name: str, minors: Iterable[int], totals: Mapping[int, Exact], children: tuple[Scope, ...] = ()
) -> Scope:
    ascending = tuple(sorted(minors))
    return Scope(LEVELS[name], ascending, bits_of(ascending), totals, children)
