"""Whether CPUs that are bound belong to one pod or Reservation each, exist, and may be handed out."""

from collections.abc import Iterator
from typing import Final

from koordpy.lib import cpuset

from ..finding import Counts, Finding, Owner, Severity
from ..holding import Holding
from ..node_books import NodeBooks

NAME: Final = "cpus"


def check(books: NodeBooks, counts: Counts) -> Iterator[Finding]:
    """Compare the CPU sets of all holders of a node with each other, and with its topology."""
    binding = [holder for holder in books.binding if holder.cpus.cpus]
    if not binding:
        return
    held: set[int] = set()
    clashes = False
    for holder in binding:
        clashes = clashes or not held.isdisjoint(holder.cpus.cpus)
        held |= holder.cpus.cpus
    counts.add(NAME, "nodes", 1)
    counts.add(NAME, "CPU sets", len(binding))
    counts.add(NAME, "CPUs", len(held))
    if clashes:
        yield from _twice(books, binding)
    if books.topology is None or not books.topology.node_of:
        counts.add(NAME, "nodes without a CPU topology", 1)
        return
    for reserved in books.topology.reserved:
        if not held.isdisjoint(reserved.cpus):
            for holder in binding:
                common = holder.cpus.cpus & reserved.cpus
                if common and holder.uid != reserved.uid:
                    other = Owner(kind="Reserved", name=reserved.by)
                    yield _finding(books, common, "handed out, and reserved", [_owner(holder), other])
    if not held <= books.topology.node_of.keys():
        for holder in binding:
            unknown = holder.cpus.cpus - books.topology.node_of.keys()
            if unknown:
                yield _finding(books, unknown, "handed out, and not in the topology", [_owner(holder)])


def _twice(books: NodeBooks, binding: list[Holding]) -> Iterator[Finding]:
    """Yield every pair of holders that share CPUs which only one of them may have."""
    by_cpu: dict[int, list[int]] = {}
    for place, holder in enumerate(binding):
        for cpu in holder.cpus.cpus:
            by_cpu.setdefault(cpu, []).append(place)
    pairs: dict[tuple[int, int], set[int]] = {}
    for cpu, places in by_cpu.items():
        for at, one in enumerate(places):
            for other in places[at + 1 :]:
                pairs.setdefault((one, other), set()).add(cpu)
    for (one, other), common in sorted(pairs.items()):
        if not books.may_share(binding[one], binding[other]):
            owners = [_owner(binding[one]), _owner(binding[other])]
            yield _finding(books, frozenset(common), "handed out twice", owners)


def _owner(holder: Holding) -> Owner:
    return Owner(kind=holder.kind, name=holder.name, amount=f"CPUs {cpuset.render(holder.cpus.cpus)}")


def _finding(books: NodeBooks, cpus: frozenset[int], problem: str, owners: list[Owner]) -> Finding:
    return Finding(
        check=NAME,
        severity=Severity.ERROR,
        node=books.name,
        what=f"CPU {cpuset.render(cpus)}",
        problem=problem,
        owners=owners,
        held=f"{len(cpus)} CPU{'s' if len(cpus) > 1 else ''}",
    )
