"""Where the devices of a node are, for nodes whose devices are in the same places."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from koordpy.api.device import DeviceInfo

from .minors import bits_of
from .numa_topology import NO_AFFINITY


class Place(NamedTuple):
    """The NUMA node of a device, and its PCIe switch as its place among those of the node."""

    node: int
    switch: int


class Listed(NamedTuple):
    """A device as a Device lists it; `place` is None if it is not known."""

    type: str
    minor: int
    place: Place | None


Layout = tuple[Listed, ...]
"""All devices of a node, in their order by type."""


def layout_of(infos: Mapping[str, Iterable[DeviceInfo]]) -> Layout:
    """Return the layout of devices by type. Only the order of the switches' names matters to allocations."""
    places = [info.topology for of_type in infos.values() for info in of_type if info.topology is not None]
    switches = {name: at for at, name in enumerate(sorted({place.pcie_id for place in places}))}
    return tuple(
        Listed(
            type_,
            info.minor or 0,
            None if info.topology is None else Place(info.topology.node_id, switches[info.topology.pcie_id]),
        )
        for type_ in sorted(infos)
        for info in infos[type_]
    )


def counts_by_numa_node(layout: Layout, type_: str) -> dict[int, int]:
    """Return how many devices of a type are on each NUMA node; see `numa_topology.topology_of`."""
    node_of = {
        each.minor: each.place.node
        for each in layout
        if each.type == type_ and each.place is not None and each.place.node != NO_AFFINITY
    }
    return Counter(node_of.values())


def numa_nodes(layout: Layout) -> tuple[int, ...]:
    """Return the NUMA nodes with devices, ascending."""
    nodes = {each.place.node for each in layout if each.place is not None} - {NO_AFFINITY}
    return tuple(sorted(nodes))


def near(layout: Layout, type_: str, numa_mask: int) -> int:
    """Return the set of devices of a type on some NUMA nodes, or without affinity to any; see `is_near`."""
    return bits_of(
        each.minor
        for each in layout
        if each.type == type_ and each.place is not None and _is_on(each.place.node, numa_mask)
    )


def _is_on(node: int, numa_mask: int) -> bool:
    return node == NO_AFFINITY or (0 <= node < 64 and bool(numa_mask >> node & 1))
