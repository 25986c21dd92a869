"""Whether the pods and Reservations of a node request more than its allocatable.

As kube-scheduler counts: every pod that is bound and has not ended, also one that is being deleted. On nodes
whose CPUs are amplified, CPUs that are bound count amplified (nodenumaresource, section 4.2).
"""

from collections.abc import Iterator
from typing import Final

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.resource_names import CPU, PODS, is_counted, is_extended

from ..amounts import Vector, text, vector
from ..finding import Counts, Finding, Owner, Severity
from ..holding import Holding
from ..node_books import NodeBooks
from ..topology import amplified, ratios

NAME: Final = "node-resources"

_SHRINKING: Final = frozenset(
    (extension.BATCH_CPU, extension.BATCH_MEMORY, extension.MID_CPU, extension.MID_MEMORY)
)
"""What is offered of unused resources, and becomes less than pods have whenever services use more."""

_OF_DEVICES: Final = frozenset(
    (
        extension.GPU,
        extension.GPU_CORE,
        extension.GPU_MEMORY,
        extension.GPU_MEMORY_RATIO,
        extension.GPU_SHARED,
        extension.RDMA,
        "koordinator.sh/fpga",
        extension.HUAWEI_NPU_CORE,
        extension.HUAWEI_NPU_CPU,
        extension.HUAWEI_NPU_DVPP,
    )
)
"""What Devices count; a node need not have it in its allocatable."""


def check(books: NodeBooks, counts: Counts) -> Iterator[Finding]:
    """Compare sums with the allocatable of a node."""
    if books.node is None:
        counts.add(NAME, "holders on nodes that do not exist", len(books.pods) + len(books.reservations))
        return
    allocatable = vector(books.node.status.allocatable)
    counts.add(NAME, "nodes", 1)
    counts.add(NAME, "pods", len(books.pods))
    counts.add(NAME, "reservations", len(books.reservations))
    counts.add(NAME, "resources", len(allocatable))
    held = books.requested()
    if CPU in held:
        held[CPU] = _with_bound_cpus(books, books.node, held[CPU])
    for name, number in held.items():
        limit = allocatable.get(name)
        if number <= (limit or 0) or name == PODS or not is_counted(name):
            continue
        if limit is None and name in _OF_DEVICES:
            continue
        yield _over(books, name, number, limit, books.sharers(name, _requests))
    yield from _pods(books, allocatable)


def _requests(holding: Holding) -> Vector:
    return holding.requests.occupied


def _with_bound_cpus(books: NodeBooks, node: Node, requested: int) -> int:
    """Return the requested milli-CPU with CPUs that are bound amplified."""
    if not node.metadata.annotations:
        return requested
    ratio = ratios(node.metadata.annotations).get(CPU, 1)
    if ratio <= 1:
        return requested
    bound = 1000 * len(frozenset().union(*(holder.cpus.cpus for holder in books.binding)))
    return requested - bound + amplified(bound, ratio) if requested >= bound else requested


def _pods(books: NodeBooks, allocatable: Vector) -> Iterator[Finding]:
    """Compare the number of pods; a Reservation keeps a place until a pod uses it."""
    most = allocatable.get(PODS)
    if most is None or len(books.pods) + len(books.reservations) <= most:
        return
    used = {pod.reservation for pod in books.pods}
    ignoring = sum(1 for pod in books.pods if pod.ignores_reservations)
    kept = max(0, sum(1 for each in books.reservations if each.uid not in used) - ignoring)
    number = len(books.pods) + kept
    if number > most:
        owners = books.owners((holder, "1") for holder in books.holders() if holder.uid not in used)
        yield _over(books, PODS, number, most, owners)


def _over(books: NodeBooks, name: str, held: int, limit: int | None, owners: list[Owner]) -> Finding:
    severity, problem = Severity.ERROR, "more requested than the node has"
    if name in _SHRINKING:
        severity, problem = Severity.NOTE, "more requested than the node offers now"
    elif limit is None:
        severity = Severity.WARNING if is_extended(name) else Severity.ERROR
        problem = "requested, and the node has none"
    return Finding(
        check=NAME,
        severity=severity,
        node=books.name,
        what=name,
        problem=problem,
        owners=owners,
        held=text(name, held),
        limit=text(name, limit or 0),
    )
