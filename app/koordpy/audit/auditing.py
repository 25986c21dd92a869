"""The whole audit: books of every node, all checks, and what was checked."""

from collections.abc import Callable, Iterator
from typing import Final

from koordpy.api.core import Node, Pod

from .checks import cpus, devices, node_resources, numa_nodes, quotas, reservations, unreadable
from .devices import DeviceReader
from .finding import Checked, Counts, Finding, Outcome, Report, Severity, in_order
from .holding import Holding, HoldingReader
from .node_books import NodeBooks
from .objects import Objects
from .topology import TopologyReader

NodeCheck = Callable[[NodeBooks, Counts], Iterator[Finding]]

NODE_CHECKS: Final[dict[str, NodeCheck]] = {
    node_resources.NAME: node_resources.check,
    cpus.NAME: cpus.check,
    numa_nodes.NAME: numa_nodes.check,
    devices.NAME: devices.check,
    unreadable.NAME: unreadable.check,
}
"""The checks of one node, by name."""

NAMES: Final = (*NODE_CHECKS, reservations.NAME, quotas.NAME)

_NEEDS: Final[dict[str, str]] = {
    cpus.NAME: "NodeResourceTopology",
    numa_nodes.NAME: "NodeResourceTopology",
    devices.NAME: "Device",
    reservations.NAME: "Reservation",
    quotas.NAME: "ElasticQuota",
}
"""The kind without which a check cannot be done, or only in part."""

_PROOF: Final[dict[str, str]] = {
    node_resources.NAME: "nodes",
    cpus.NAME: "CPUs",
    numa_nodes.NAME: "NUMA nodes",
    devices.NAME: "devices",
    unreadable.NAME: "holders",
    reservations.NAME: "reservations",
    quotas.NAME: "quotas",
}
"""What a check has counted if there was something to check."""


def audit(objects: Objects, source: str = "") -> Report:
    """Check everything. No object is changed; objects that cannot be read are findings."""
    counts = Counts()
    ledger = _Ledger(objects)
    findings: list[Finding] = []
    for books in ledger.nodes.values():
        for check in NODE_CHECKS.values():
            findings += check(books, counts)
    findings += reservations.check(objects.reservations, ledger.owners, ledger.ended, counts)
    findings += quotas.check(objects.quotas, ledger.bound, counts)
    notes = [found for found in findings if found.severity is Severity.NOTE]
    findings = [found for found in findings if found.severity is not Severity.NOTE]
    errors = sum(1 for found in findings if found.severity is Severity.ERROR)
    return Report(
        source=source,
        objects=objects.counts,
        checks=[_checked(name, counts.of.get(name, {}), objects) for name in NAMES],
        errors=errors,
        warnings=len(findings) - errors,
        findings=in_order(findings),
        notes=in_order(notes),
    )


def confirmed(first: Report, second: Report) -> Report:
    """Return the second report with those of its findings that the first one has, too.

    Lists of several types are not of one moment: a pod that was listed before a Reservation may be gone when
    this is read. What is really wrong is still there later.
    """
    known = {found.identity for found in first.findings}
    findings = [found for found in second.findings if found.identity in known]
    errors = sum(1 for found in findings if found.severity is Severity.ERROR)
    return second.model_copy(
        update={"findings": findings, "errors": errors, "warnings": len(findings) - errors}
    )


class _Ledger:
    """The books of all nodes, and the pods by what they use."""

    def __init__(self, objects: Objects) -> None:
        reader, topologies, minors = HoldingReader(), TopologyReader(), DeviceReader()
        self._knows_devices = _NEEDS[devices.NAME] not in objects.missing
        self.nodes = {node.metadata.name: self._empty(node.metadata.name, node) for node in objects.nodes}
        self.owners: dict[str, list[Holding]] = {}
        self.ended: dict[str, list[Holding]] = {}
        self.bound: list[Holding] = []
        for topology in objects.topologies:
            if topology.metadata.name in self.nodes:
                self.nodes[topology.metadata.name].topology = topologies.read(topology)
        for device in objects.devices:
            if device.metadata.name in self.nodes:
                self.nodes[device.metadata.name].devices = minors.read(device)
        for pod in objects.pods:
            if pod.spec.node_name:
                self._add(pod, reader)
        for reservation in objects.reservations:
            if reservation.is_active:
                holding = reader.of_reservation(reservation)
                books = self._books(holding.node)
                books.reservations.append(holding)
                books.sort_in(holding)

    def _add(self, pod: Pod, reader: HoldingReader) -> None:
        """Add a bound pod; one that has ended holds nothing."""
        holding = reader.of_pod(pod)
        runs = pod.status.phase == "Running"
        if not runs and pod.is_terminal:
            if holding.reservation:
                self.ended.setdefault(holding.reservation, []).append(holding)
            return
        if holding.reservation:
            self.owners.setdefault(holding.reservation, []).append(holding)
        if holding.reserves:
            holding.reserves = runs
        books = self.nodes.get(holding.node) or self._books(holding.node)
        books.pods.append(holding)
        if pod.metadata.annotations:
            books.sort_in(holding)
        self.bound.append(holding)

    def _books(self, node: str) -> NodeBooks:
        books = self.nodes.get(node)
        if books is None:
            books = self.nodes[node] = self._empty(node)
        return books

    def _empty(self, name: str, node: Node | None = None) -> NodeBooks:
        return NodeBooks(name, node, knows_devices=self._knows_devices)


def _checked(name: str, counts: dict[str, int], objects: Objects) -> Checked:
    needed = _NEEDS.get(name, "")
    reason = f"{needed}: {objects.missing[needed]}" if needed in objects.missing else ""
    outcome = Outcome.IMPOSSIBLE if reason else Outcome.NOTHING
    if counts.get(_PROOF[name]):
        outcome = Outcome.DONE
    return Checked(check=name, outcome=outcome, counts=counts, reason=reason)
