"""Whether more of a NUMA node is handed out than its zone has.

Zones are amplified by the node's ratios unless the topology says that they are; CPUs that are bound count
amplified then. CPUs that are reserved are no part of a zone (nodenumaresource, sections 1.4, 1.6 and 3.1).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from koordpy.api.resource_names import CPU

from ..amounts import Vector, text
from ..annotations import ZoneAmounts
from ..finding import Counts, Finding, Owner, Severity
from ..holding import Holding
from ..node_books import NodeBooks
from ..topology import Topology, amplified, ratios

NAME: Final = "numa-nodes"


def check(books: NodeBooks, counts: Counts) -> Iterator[Finding]:
    """Compare sums with the zones of a node."""
    if not any(holder.cpus.zones for holder in books.binding):
        return
    counts.add(NAME, "nodes", 1)
    topology = books.topology
    if topology is None or not topology.zones:
        counts.add(NAME, "nodes without zones", 1)
        return
    counts.add(NAME, "NUMA nodes", len(topology.zones))
    by_ratio = ratios(books.node.metadata.annotations) if books.node is not None else {}
    held = books.sums(books.binding, _zones)
    cpu_ratio = by_ratio.get(CPU, 1)
    for zone, part in sorted(held.items()):
        limits = topology.zones.get(zone)
        for name, number in sorted(part.items()):
            if number <= 0 or (limits is not None and name not in limits):
                continue  # a zone limits what it lists
            if name == CPU and cpu_ratio > 1:
                bound = 1000 * len(_bound(books, topology, zone))
                number += amplified(bound, cpu_ratio) - bound
            limit = None if limits is None else _limit(limits, name, topology, by_ratio)
            if limit is None or number > limit:
                yield _finding(books, zone, name, number, limit)


def _zones(holding: Holding) -> ZoneAmounts:
    return holding.cpus.zones


def _bound(books: NodeBooks, topology: Topology, zone: int) -> set[int]:
    """Return the CPUs of a NUMA node that are bound by holders of amounts of it."""
    return {
        cpu
        for holder in books.binding
        if CPU in holder.cpus.zones.get(zone, ())
        for cpu in holder.cpus.cpus
        if topology.node_of.get(cpu) == zone
    }


def _limit(limits: Vector, name: str, topology: Topology, by_ratio: Mapping[str, float]) -> int:
    number = max(0, limits[name])
    return number if topology.is_amplified else amplified(number, by_ratio.get(name, 1))


def _finding(books: NodeBooks, zone: int, name: str, held: int, limit: int | None) -> Finding:
    owners: list[Owner] = books.sharers(name, lambda holder: holder.cpus.zones.get(zone))
    return Finding(
        check=NAME,
        severity=Severity.ERROR,
        node=books.name,
        what=f"NUMA node {zone} {name}",
        problem="handed out, and not in the topology" if limit is None else "more handed out than it has",
        owners=owners,
        held=text(name, held),
        limit="" if limit is None else text(name, limit),
    )
