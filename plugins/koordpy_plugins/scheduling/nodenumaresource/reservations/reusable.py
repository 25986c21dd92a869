"""What reservations, or running pods that a Reservation takes over, hold on a node, as an attempt sees it.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/reservation.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.resource_amounts import Amounts, minus, minus_not_negative
from koordpy.api.resource_list import Quantities
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs

from ..attempt.preemptible import sum_up
from ..state.ledger import CPULedger
from ..state.node_allocation import NodeAllocation
from ..state.pod_allocation import PodAllocation

_NO_CPUS: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Reusable:
    """What one reservation holds (`allocatable`), what its owners use of it, and what remains.

    For a running pod that may be taken over everything remains. Amounts by NUMA node; those that remain may
    be negative, and allocations with a required bind policy trim them in place (spec section 8.6).
    """

    info: ReservationInfo
    allocatable_cpus: frozenset[int] = _NO_CPUS
    allocated_cpus: frozenset[int] = _NO_CPUS
    remained_cpus: frozenset[int] = _NO_CPUS
    allocatable: Mapping[int, Amounts] = field(default_factory=dict)
    allocated: Mapping[int, Amounts] = field(default_factory=dict)
    remained: dict[int, Quantities] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeReusable:
    """All that is reusable on a node, in the order of the reservations, with its sums.

    `matched` by UID of the reservation, or of the pod that may be taken over by `pre_allocation`. All CPUs of
    matched reservations are in `matched_cpus`, those of owners too, as in Koordinator.
    """

    matched: Mapping[str, Reusable] = field(default_factory=dict)
    unmatched: Mapping[str, Reusable] = field(default_factory=dict)
    pre_allocation: ReservationInfo | None = None
    unmatched_used: Mapping[int, Amounts] = field(default_factory=dict)
    matched_allocatable: Mapping[int, Amounts] = field(default_factory=dict)
    matched_allocated: Mapping[int, Amounts] = field(default_factory=dict)
    matched_remained_cpus: frozenset[int] = _NO_CPUS
    matched_cpus: frozenset[int] = _NO_CPUS

    @classmethod
    def of(
        cls,
        matched: Mapping[str, Reusable],
        unmatched: Mapping[str, Reusable],
        pre_allocation: ReservationInfo | None = None,
    ) -> "NodeReusable":
        """Sum up."""
        items = matched.values()
        return cls(
            matched,
            unmatched,
            pre_allocation,
            sum_up(*(_used(item) for item in unmatched.values())),
            sum_up(*(item.allocatable for item in items)),
            sum_up(*(item.allocated for item in items)),
            _NO_CPUS.union(*(item.remained_cpus for item in items)),
            _NO_CPUS.union(*(item.allocated_cpus for item in items)),
        )

    @cached_property
    def owners_use(self) -> dict[int, Amounts]:
        """What pods have of reservations: it counts twice in what is allocated."""
        return sum_up(self.unmatched_used, self.matched_allocated)


def _used(item: Reusable) -> dict[int, Amounts]:
    used: dict[int, Amounts] = dict(item.allocatable)
    for node, amounts in item.remained.items():
        used[node] = minus_not_negative(used.get(node, {}), amounts)
    return used


NOTHING: Final = NodeReusable()

RESTORED: Final[StateKey[dict[str, NodeReusable]]] = StateKey("NodeNUMAResource/reservationRestoreState")
"""By node name; what-ifs of an attempt share it."""


def reusable_on(state: CycleState, node_name: str) -> NodeReusable:
    """Return what is reusable on a node in an attempt."""
    return (state.read(RESTORED) or {}).get(node_name, NOTHING)


def of_pairs(
    matched: ReservationPairs, unmatched: ReservationPairs, ledger: CPULedger
) -> dict[str, NodeReusable]:
    """Return what reservations hold, by the name of their node; both pairs have the same nodes.

    Most reservations hold neither CPUs nor resources of NUMA nodes; nodes with these alone are left out.
    """
    names = list(matched.nodes.names)
    allocations = list(map(ledger.node, names))
    holding: dict[int, tuple[list[ReservationInfo], list[ReservationInfo]]] = {}
    for kind, pairs in enumerate((matched, unmatched)):
        for at, info in zip(pairs.at.tolist(), pairs.reservations, strict=True):
            held = allocations[at]
            if held is not None and held.get(info.pod.metadata.uid) is not None:
                holding.setdefault(at, ([], []))[kind].append(info)
    found = {}
    for at in sorted(holding):
        for_pod, others = (of_reservations(infos, allocations[at]) for infos in holding[at])
        if for_pod or others:
            found[names[at]] = NodeReusable.of(for_pod, others)
    return found


def of_reservations(
    reservations: Sequence[ReservationInfo], held: NodeAllocation | None
) -> dict[str, Reusable]:
    """Return what reservations of a node hold by UID, without those that hold nothing."""
    if held is None:
        return {}
    found = {}
    for info in reservations:
        own = held.get(info.pod.metadata.uid)
        if own is None:
            continue
        users = [user for uid in info.assigned if (user := held.get(uid)) is not None]
        item = _item(info, own, users)
        if item.allocatable or item.allocatable_cpus:
            found[info.uid] = item
    return found


def _item(info: ReservationInfo, own: PodAllocation, users: Iterable[PodAllocation]) -> Reusable:
    remained_cpus = own.cpus
    allocated: dict[int, Amounts] = {}
    for user in users:
        remained_cpus -= user.cpus
        if own.numa_resources:
            allocated = sum_up(allocated, user.numa_resources)
    remained: dict[int, Quantities] = {node: dict(amounts) for node, amounts in own.numa_resources.items()}
    for node, amounts in allocated.items():
        remained[node] = minus(remained.get(node, {}), amounts)
    return Reusable(
        info,
        allocatable_cpus=own.cpus,
        allocated_cpus=own.cpus,
        remained_cpus=remained_cpus,
        allocatable=own.numa_resources,
        allocated=allocated,
        remained=remained,
    )


def of_pods(info: ReservationInfo, pods: Sequence[Pod], held: NodeAllocation | None) -> dict[str, Reusable]:
    """Return what running pods hold that a Reservation may take over, by UID."""
    found = {}
    for pod in pods if held is not None else ():
        own = held.get(pod.metadata.uid) if held is not None else None
        if own is None or not (own.numa_resources or own.cpus):
            continue
        found[pod.metadata.uid] = Reusable(
            info,
            allocatable_cpus=own.cpus,
            remained_cpus=own.cpus,
            allocatable=own.numa_resources,
            remained={node: dict(amounts) for node, amounts in own.numa_resources.items()},
        )
    return found
