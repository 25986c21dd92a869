"""Which NUMA nodes can give a pod its devices, and which of them do it best.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/topology_hint.go`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from koordpy.api.device_allocations import DeviceAllocations
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager import bitmask

from ..allocation.requests import GPU
from ..amounts import total
from ..state.numa_topology import NUMATopology
from .node_attempt import NodeAttempt
from .prepared import Prepared
from .reusable import try_reusable

Hints = Mapping[str, Sequence[NUMATopologyHint] | None]

BEST_SCORE: Final = 500
"""More than the 100 that CPUs can score, so that the place of devices decides."""

_MASK_WIDTH: Final = 64

_MOST_TRIED: Final = 1 << 16
"""Devices that are considered in all sets of NUMA nodes together; beyond so many there is no preference."""

INSUFFICIENT: Final = "Insufficient NUMA Scoped Devices"

NO_NUMA_NODE: Final = "Designated Allocation Lack NUMA Node ID"


@dataclass(frozen=True, slots=True)
class _Feasible:
    mask: int
    size: int
    allocations: DeviceAllocations


def of_node(attempt: NodeAttempt | None, prepared: Prepared) -> tuple[Hints, Status]:
    """Return the hints of a node, none if no devices of it are known."""
    if attempt is None:
        return {}, SUCCESS
    if prepared.designated is not None:
        return designated_hints(prepared.designated, attempt.devices.numa)
    return topology_hints(attempt, required=prepared.reservation_required)


def topology_hints(attempt: NodeAttempt, *, required: bool) -> tuple[Hints, Status]:
    """Return a hint by type of device for each set of NUMA nodes that has enough devices.

    The hints that lead to the same GPUs as all NUMA nodes together score best; the smallest sets are
    preferred. A failure is that of all NUMA nodes together. With `required` the pod needs a reservation.
    """
    numa = attempt.devices.numa
    if not has_preference(numa.nodes, attempt.devices.count):
        return {}, SUCCESS
    search = _Search(attempt, required)
    feasible: list[_Feasible] = []
    unsatisfied = SUCCESS
    best: DeviceAllocations = {}
    for size in range(1, len(numa.nodes) + 1):
        for nodes in combinations(numa.nodes, size):
            found, unsatisfied = search.within(nodes)
            best = found
            if found:
                feasible.append(_Feasible(bitmask.of(nodes), size, found))
    types = search.types
    if not unsatisfied.is_success or (types and not feasible):
        return {}, unsatisfied
    smallest = min((each.size for each in feasible), default=0)
    wanted = _gpus(best)
    hints = [
        NUMATopologyHint(
            each.mask,
            preferred=each.size == smallest,
            score=BEST_SCORE if _gpus(each.allocations) == wanted else 0,
        )
        for each in feasible
    ]
    return dict.fromkeys(types, hints), SUCCESS


def has_preference(nodes: Collection[int], devices: int) -> bool:
    """Return whether so many devices on NUMA nodes have hints: masks have the nodes, and there are few."""
    return bool(nodes) and _have_masks(nodes) and devices << len(nodes) <= _MOST_TRIED


def _have_masks(nodes: Iterable[int]) -> bool:
    """Return whether masks can have these NUMA nodes."""
    return all(0 <= node < _MASK_WIDTH for node in nodes)


class _Search:
    """Allocates from one set of NUMA nodes after the other.

    What matched reservations hold counts as free once more for every set that needs it: Koordinator adds it
    to the same amounts each time. The check of the chosen NUMA nodes, and Reserve, count it once.
    """

    def __init__(self, attempt: NodeAttempt, required: bool) -> None:
        self._attempt, self._required = attempt, required
        self._base = attempt.base
        self.types: tuple[str, ...] = ()
        """The types that were looked for on any set with enough devices."""

    def within(self, nodes: Sequence[int]) -> tuple[DeviceAllocations, Status]:
        """Return what would be allocated of some NUMA nodes, nothing on a failure."""
        attempt = self._attempt.within(bitmask.of(nodes))
        wanted, status = attempt.wanted()
        if not status.is_success:
            return {}, status
        there = _devices_on(attempt.devices.numa, nodes)
        if any(there.get(type_, each.count) < each.count for type_, each in wanted.items()):
            return {}, Status.unresolvable(INSUFFICIENT)
        self.types = self.types or tuple(wanted)
        matched = attempt.restored.matched
        found, status = try_reusable(attempt, attempt.pod, matched, self._base, required=self._required)
        if status.is_success and not found:
            self._base = total(self._base, attempt.restored.matched_allocatable)
            found, status = attempt.allocate(self._base)
        return (found, SUCCESS) if status.is_success else ({}, status)


def _devices_on(numa: NUMATopology, nodes: Sequence[int]) -> dict[str, int]:
    """Return the number of devices by type, without types that are not on these NUMA nodes."""
    counts: dict[str, int] = {}
    for type_, by_minor in numa.node_of.items():
        count = sum(node in nodes for node in by_minor.values())
        if count:
            counts[type_] = count
    return counts


def _gpus(allocations: DeviceAllocations) -> frozenset[int]:
    return frozenset(each.minor for each in allocations.get(GPU, ()))


def designated_hints(designated: DeviceAllocations, numa: NUMATopology) -> tuple[Hints, Status]:
    """Return the one hint of a recorded allocation: the NUMA nodes of its devices."""
    nodes: set[int] = set()
    for type_, allocations in designated.items():
        node_of = numa.node_of.get(type_, {})
        for each in allocations:
            if each.minor not in node_of:
                return {}, Status.unschedulable(NO_NUMA_NODE)
            nodes.add(node_of[each.minor])
    if not _have_masks(nodes):
        return {}, SUCCESS
    hint = NUMATopologyHint(bitmask.of(nodes), preferred=True, score=BEST_SCORE)
    return dict.fromkeys(designated, (hint,)), SUCCESS
