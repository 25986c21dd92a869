"""Clean books stay clean, and what is over-committed in them is found, whatever else is there."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.meta import KubeObject
from tests.unit.audit.books import findings, node, pod, reservation, topology

CPUS, GIB = 16, 64


@dataclass
class Part:
    """One holder of a node, with CPUs, GiB, and what an owner uses of them if it is a Reservation."""

    name: str
    cpu: int
    memory: int
    used: int | None

    @property
    def requests(self) -> dict[str, str]:
        return {"cpu": str(self.cpu), "memory": f"{self.memory}Gi"}

    def objects(self) -> list[KubeObject]:
        if self.used is None:
            return [pod(self.name, requests=self.requests)]
        owner = f"{self.name}-owner"
        return [
            reservation(
                self.name,
                reserved=self.requests,
                owners=(owner,),
                allocated={"cpu": str(self.used), "memory": "0"},
            ),
            pod(owner, requests={"cpu": str(self.used)}, reservation=self.name),
        ]


@st.composite
def fitting(draw: st.DrawFn) -> list[Part]:
    """Holders that together fit on the node; owners use a part of their Reservations."""
    cpu, memory, parts = CPUS, GIB, []
    for number in range(draw(st.integers(0, 6))):
        wanted = draw(st.integers(0, cpu)), draw(st.integers(0, memory))
        cpu, memory = cpu - wanted[0], memory - wanted[1]
        used = draw(st.none() | st.integers(0, wanted[0]))
        parts.append(Part(f"h{number}", *wanted, used))
    return parts


def objects(parts: list[Part]) -> list[KubeObject]:
    return [obj for part in parts for obj in part.objects()]


@given(fitting())
def test_what_fits_on_a_node_is_clean(parts: list[Part]) -> None:
    assert findings(node(), *objects(parts)) == []


@given(fitting(), st.sampled_from(["cpu", "memory"]), st.integers(1, 1000), st.booleans())
def test_one_unit_more_than_a_node_has_is_found(
    parts: list[Part], resource: str, more: int, is_reservation: bool
) -> None:
    total = sum(part.cpu if resource == "cpu" else part.memory for part in parts)
    rest = (CPUS if resource == "cpu" else GIB) - total
    amount = f"{rest * 1000 + more}m" if resource == "cpu" else str((rest << 30) + more)
    extra: KubeObject = (
        reservation("extra", reserved={resource: amount})
        if is_reservation
        else pod("extra", requests={resource: amount})
    )
    found = findings(node(), *objects(parts), extra)
    assert [(each.check, each.what, each.severity.value) for each in found] == [
        ("node-resources", resource, "error")
    ]
    names = {owner.name for owner in found[0].owners}
    assert ("extra" if is_reservation else "default/extra") in names


ZONE_CPUS = {"0": 8, "1": 8}


@st.composite
def zoned(draw: st.DrawFn) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Parts of zones that fit, by NUMA node, and what is left of each in thousandths of a CPU."""
    left = {zone: cpus * 1000 for zone, cpus in ZONE_CPUS.items()}
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        part = {}
        for zone in draw(st.sets(st.sampled_from(sorted(left)), min_size=1)):
            amount = draw(st.integers(0, left[zone]))
            left[zone] -= amount
            part[zone] = {"cpu": f"{amount}m"}
        parts.append(part)
    return parts, left


@given(zoned())
def test_what_fits_in_numa_nodes_is_clean(drawn: tuple[list[dict[str, Any]], dict[str, int]]) -> None:
    parts, _ = drawn
    pods = [pod(f"p{number}", zones=part) for number, part in enumerate(parts)]
    assert findings(node(), topology(), *pods) == []


@given(zoned(), st.sampled_from(sorted(ZONE_CPUS)), st.integers(1, 5000), st.booleans())
def test_a_thousandth_more_than_a_numa_node_has_is_found(
    drawn: tuple[list[dict[str, Any]], dict[str, int]], zone: str, more: int, by_reservation: bool
) -> None:
    parts, left = drawn
    pods: list[KubeObject] = [pod(f"p{number}", zones=part) for number, part in enumerate(parts)]
    zones = {zone: {"cpu": f"{left[zone] + more}m"}}
    user = pod("extra", zones=zones, reservation="r" if by_reservation else "")
    # An owner that holds more of a zone than its Reservation counts with what it holds.
    reserved = [reservation("r", owners=("extra",))] if by_reservation else []
    found = findings(node(), topology(), *pods, user, *reserved)
    assert [(each.check, each.what, each.severity.value) for each in found] == [
        ("numa-nodes", f"NUMA node {zone} cpu", "error")
    ]
    assert "default/extra" in {owner.name for owner in found[0].owners}


@given(zoned(), st.sampled_from(sorted(ZONE_CPUS)), st.integers(1, 8))
def test_cpus_that_are_reserved_are_no_part_of_a_zone(
    drawn: tuple[list[dict[str, Any]], dict[str, int]], zone: str, count: int
) -> None:
    parts, left = drawn
    first = 0 if zone == "0" else 8
    taken = {"node.koordinator.sh/reservation": {"reservedCPUs": f"{first}-{first + count - 1}"}}
    pods = [pod(f"p{number}", zones=part) for number, part in enumerate(parts)]
    found = findings(node(), topology(annotations=taken), *pods)
    is_over = left[zone] < count * 1000 and left[zone] < 8000
    assert [each.what for each in found] == ([f"NUMA node {zone} cpu"] if is_over else [])
