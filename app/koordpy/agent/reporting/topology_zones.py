"""The zones of a NodeResourceTopology: one for each NUMA node, with its resources."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from koordpy.agent.interface.facts import NodeCPUInfo, NodeNUMAInfo
from koordpy.api import quantity
from koordpy.api.core import Node
from koordpy.api.quantity_number import Format, Quantity

ZONE_TYPE: Final = "Node"
MANAGED_RESOURCES: Final = ("cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "hugepages-1Gi")
_HUGE_PAGES: Final = {2048: "hugepages-2Mi", 1048576: "hugepages-1Gi"}


@dataclass(frozen=True)
class ZoneResource:
    """The amounts of one resource; what is available is always the allocatable."""

    name: str
    capacity: str
    allocatable: str


@dataclass(frozen=True)
class Zone:
    """The NUMA node `node-ID`; resources by name."""

    name: str
    resources: tuple[ZoneResource, ...]


def zones_of(node: Node, cpus: NodeCPUInfo, numa: NodeNUMAInfo, *, reserve: bool) -> tuple[Zone, ...]:
    """Return the zones by name; with `reserve`, kubelet's reservation is taken from them in equal parts.

    Raises ValueError if processors and memory are on different numbers of NUMA nodes.
    """
    by_node: dict[int, int] = {}
    for processor in cpus.processors:
        by_node[processor.node] = by_node.get(processor.node, 0) + 1
    if len(by_node) != len(numa.nodes):
        raise ValueError(f"{len(by_node)} NUMA nodes have processors, but {len(numa.nodes)} have memory")
    reserved = _reserved_per_node(node, len(numa.nodes)) if reserve else {}
    zones = []
    for memory in numa.nodes:
        huge = dict.fromkeys(_HUGE_PAGES.values(), 0)
        for pages in memory.huge_pages:
            huge[_HUGE_PAGES[pages.size_kib]] = pages.total * pages.size_kib * 1024
        amounts = {
            "cpu": Quantity.of(by_node.get(memory.node, 0)),
            "memory": Quantity.of(memory.total - sum(huge.values()), Format.BINARY_SI),
            **{name: Quantity.of(size, Format.BINARY_SI) for name, size in huge.items()},
        }
        resources = tuple(
            ZoneResource(name, str(amounts[name]), str(_left(amounts[name], reserved.get(name))))
            for name in sorted(amounts)
        )
        zones.append(Zone(f"node-{memory.node}", resources))
    return tuple(sorted(zones, key=lambda zone: zone.name))


def merged(existing: Iterable[Mapping[str, Any]], zones: Iterable[Zone]) -> list[dict[str, Any]]:
    """Return the zones as documents; resources that others added to a zone of the same name are kept."""
    others = {zone.get("name"): zone for zone in existing if zone.get("type") == ZONE_TYPE}
    documents = []
    for zone in zones:
        resources = {each["name"]: each for each in others.get(zone.name, {}).get("resources") or ()}
        for each in zone.resources:
            resources[each.name] = {
                "name": each.name,
                "capacity": each.capacity,
                "allocatable": each.allocatable,
                "available": each.allocatable,
            }
        ordered = [resources[name] for name in sorted(resources)]
        documents.append({"name": zone.name, "type": ZONE_TYPE, "resources": ordered})
    return documents


def equal(existing: list[dict[str, Any]], zones: tuple[Zone, ...]) -> bool:
    """Return whether zones of an object have these names, and these amounts of the managed resources."""
    if [(zone.get("name"), zone.get("type")) for zone in existing] != [
        (zone.name, ZONE_TYPE) for zone in zones
    ]:
        return False
    for document, zone in zip(existing, zones, strict=True):
        known = {each.get("name"): each for each in document.get("resources") or ()}
        wanted = {each.name: each for each in zone.resources}
        for name in MANAGED_RESOURCES:
            if (name in known) != (name in wanted):
                return False
            if name in wanted and not _same(known[name], wanted[name]):
                return False
    return True


def _same(document: Mapping[str, Any], resource: ZoneResource) -> bool:
    wanted = (resource.capacity, resource.allocatable, resource.allocatable)
    try:
        found = [quantity.parse(document[field]) for field in ("capacity", "allocatable", "available")]
    except (KeyError, ValueError, TypeError):
        return False
    return all(one.compare(quantity.parse(other)) == 0 for one, other in zip(found, wanted, strict=True))


def _reserved_per_node(node: Node, count: int) -> dict[str, Quantity]:
    """Return kubelet's reservation of cpu and memory divided by the NUMA nodes, rounded up to thousandths."""
    found: dict[str, Quantity] = {}
    capacity, allocatable = node.status.capacity, node.status.allocatable
    for name in ("cpu", "memory"):
        if count and name in capacity and name in allocatable:
            total = quantity.from_wire(capacity[name])
            reserved = total - quantity.from_wire(allocatable[name])
            if reserved.sign > 0:
                found[name] = Quantity.of_milli(-(-reserved.milli_value() // count), total.format)
    return found


def _left(amount: Quantity, reserved: Quantity | None) -> Quantity:
    if reserved is None:
        return amount
    left = amount - reserved
    return left if left.sign >= 0 else Quantity.of(0, amount.format)
