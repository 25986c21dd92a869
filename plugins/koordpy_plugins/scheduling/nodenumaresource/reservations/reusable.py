"""What reservations, or running pods that a Reservation takes over, hold on a node, as an attempt sees it.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/reservation.go`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeVar

from koordpy.api.core import Pod
from koordpy.api.reservation import RESTRICTED
from koordpy.api.resource_amounts import Amounts, minus, minus_not_negative
from koordpy.api.resource_list import Quantities
from koordpy.lib.deep_size import deep_size
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.toolkit.restored_nodes import Infos, RestoredNodes

from ..attempt.preemptible import sum_up
from ..state.ledger import CPULedger
from ..state.node_allocation import NodeAllocation
from ..state.pod_allocation import PodAllocation

_NO_CPUS: Final[frozenset[int]] = frozenset()

T = TypeVar("T")

_MOST_KEPT: Final = 4
"""Arrays for some bind policies."""

_KEPT_BYTES: Final = 1500
"""Of an offer with all resources that arrays have cells for."""


@dataclass(frozen=True, slots=True)
class Reusable:
    """What one reservation holds (`allocatable`), what its owners use of it, and what remains.

    For a running pod that may be taken over everything remains. Amounts by NUMA node; those that remain may
    be negative, and allocations with a required bind policy trim those of a Restricted reservation in place
    (spec section 8.6).
    """

    info: ReservationInfo
    allocatable_cpus: frozenset[int] = _NO_CPUS
    allocated_cpus: frozenset[int] = _NO_CPUS
    remained_cpus: frozenset[int] = _NO_CPUS
    allocatable: Mapping[int, Amounts] = field(default_factory=dict)
    allocated: Mapping[int, Amounts] = field(default_factory=dict)
    remained: dict[int, Quantities] = field(default_factory=dict)

    @property
    def is_restricted(self) -> bool:
        """Whether owners get nothing besides what is reserved."""
        return self.info.policy == RESTRICTED


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
    _kept: dict[Hashable, Any] = field(default_factory=dict, compare=False)
    _original: "NodeReusable | None" = field(default=None, compare=False, repr=False)
    """What is remembered, if this is a copy for one attempt."""

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

    @cached_property
    def _restricted(self) -> Mapping[str, Reusable]:
        return {uid: item for uid, item in self.matched.items() if item.is_restricted}

    def own(self) -> "NodeReusable":
        """Return the same for one attempt, which may trim what remains of Restricted reservations."""
        if not self._restricted:
            return self
        copies = {
            uid: replace(item, remained=_copied(item.remained)) for uid, item in self._restricted.items()
        }
        return replace(self, matched={**self.matched, **copies}, _original=self)

    def kept(self, key: Hashable, make: Callable[["NodeReusable"], T]) -> T:
        """Return what arrays make of it, which no attempt has trimmed, for as long as it is remembered."""
        original = self._original or self
        kept = original._kept
        if key not in kept:
            if len(kept) >= _MOST_KEPT:
                kept.clear()
            kept[key] = make(original)
        found: T = kept[key]
        return found

    def size(self, most: int) -> int:
        """Return the bytes of what is in no ledger; more than `most` if there is more."""
        items = (*self.matched.values(), *self.unmatched.values())
        remained = [(item.remained, item.remained_cpus, item.allocated) for item in items]
        sums = self.unmatched_used, self.matched_allocatable, self.owners_use
        # What is offered with Restricted reservations alone is kept too, with its own amounts.
        offers = len(self.matched) + 2 * len(self._restricted) + 2
        return deep_size((remained, sums), most) + _MOST_KEPT * _KEPT_BYTES * offers


def _copied(amounts: Mapping[int, Amounts]) -> dict[int, Quantities]:
    return {node: dict(of_node) for node, of_node in amounts.items()}


def _used(item: Reusable) -> dict[int, Amounts]:
    used: dict[int, Amounts] = dict(item.allocatable)
    for node, amounts in item.remained.items():
        used[node] = minus_not_negative(used.get(node, {}), amounts)
    return used


NOTHING: Final = NodeReusable()

RESTORED: Final[StateKey[RestoredNodes[NodeReusable]]] = StateKey("NodeNUMAResource/reservationRestoreState")
"""What-ifs of an attempt share it."""


def restored_in(state: CycleState) -> RestoredNodes[NodeReusable]:
    """Return what is reusable in an attempt."""
    return state.read(RESTORED) or RestoredNodes()


def reusable_on(state: CycleState, node_name: str) -> NodeReusable:
    """Return what is reusable on a node: of most reservations neither CPUs nor amounts of NUMA nodes."""
    return restored_in(state).on(node_name) or NOTHING


def of_reservations_on(
    ledger: CPULedger, node_name: str, matched: Infos, unmatched: Infos
) -> NodeReusable | None:
    """Return what reservations of a node hold, None if that is nothing."""
    held = ledger.node(node_name)
    for_pod, others = of_reservations(matched, held), of_reservations(unmatched, held)
    return NodeReusable.of(for_pod, others) if for_pod or others else None


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
    remained = _copied(own.numa_resources)
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


def restore_pods(
    state: CycleState, info: ReservationInfo, pods: Sequence[Pod], node_name: str, ledger: CPULedger
) -> NodeReusable | None:
    """Add what running pods of a node hold that a Reservation may take over; None if that is nothing."""
    found = of_pods(info, pods, ledger.node(node_name))
    if not found:
        return None
    before = reusable_on(state, node_name)
    restored = NodeReusable.of({**before.matched, **found}, before.unmatched, info)
    restored_in(state).keep(node_name, restored)
    return restored


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
            remained=_copied(own.numa_resources),
        )
    return found
