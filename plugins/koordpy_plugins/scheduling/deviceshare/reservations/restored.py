"""The devices of a node's reservations, as an attempt may use them.

What a reservation holds is its reserve pod's allocation; of that its owners use a part, and the rest remains.
A Reservation that takes over running pods finds their allocations in the same form. Source: Koordinator,
`pkg/scheduler/plugins/deviceshare/reservation.go`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.deep_size import deep_size
from koordpy.scheduling.interface import ReservationInfo
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.toolkit.restored_nodes import RestoredNodes

from ..amounts import NONE, NodeAmounts, difference, minors_of, total, total_of_minors

HeldBy = Callable[[str, str], NodeAmounts]
"""Returns what a pod, by namespace and name, holds of a node's devices."""


@dataclass(frozen=True, slots=True)
class Reusable:
    """The devices of a reservation, or of a running pod that a Reservation may take over."""

    reservation: ReservationInfo
    """The reservation, or the one that takes over the pod."""
    allocatable: NodeAmounts
    allocated: NodeAmounts
    """What the owners use of it."""
    remained: NodeAmounts
    """The rest, negative where owners use more of a device than was reserved."""
    taken_over: Pod | None = None


@dataclass(frozen=True, slots=True)
class RestoredNode:
    """The devices of one node's reservations, and their sums."""

    matched: Sequence[Reusable] = ()
    """Those that the attempt may use, in the order of preference."""
    unmatched: Sequence[Reusable] = ()
    pre_allocation: ReservationInfo | None = None
    """The Reservation that is being scheduled, if it takes over pods."""
    matched_allocatable: NodeAmounts = field(default_factory=dict)
    matched_allocated: NodeAmounts = field(default_factory=dict)
    unmatched_used: NodeAmounts = field(default_factory=dict)
    """What owners use of unmatched reservations: it is counted twice, for the reserve pod and for them."""
    is_plain: bool = False
    """Whether nothing more is free on the node, unless preemption gives something back."""
    digests: dict[int, bytes] = field(default_factory=dict, compare=False)
    """See `reservations.contents`; by version of the node's devices."""

    @classmethod
    def of(
        cls,
        matched: Sequence[Reusable],
        unmatched: Sequence[Reusable],
        pre_allocation: ReservationInfo | None = None,
    ) -> "RestoredNode":
        """Add up the sums."""
        return cls(
            matched,
            unmatched,
            pre_allocation,
            total(*(each.allocatable for each in matched)),
            total(*(each.allocated for each in matched)),
            total(*(difference(each.allocatable, each.remained, negative=False) for each in unmatched)),
        )

    def place_of(self, uid: str) -> int:
        """Return where a reservation is among the matched ones, -1 if it is not."""
        return next((at for at, each in enumerate(self.matched) if each.reservation.uid == uid), -1)

    def size(self, most: int) -> int:
        """Return the bytes of what is in no ledger; more than `most` if there is more."""
        items = [(item.allocated, item.remained) for item in (*self.matched, *self.unmatched)]
        return deep_size((items, self.matched_allocatable, self.matched_allocated, self.unmatched_used), most)


EMPTY = RestoredNode()


@dataclass(slots=True)
class Restored:
    """The restored nodes of an attempt. `skip` is set where the pod requests no devices."""

    skip: bool
    nodes: RestoredNodes[RestoredNode] = field(default_factory=RestoredNodes)

    def special(self, nodes: NodeSet) -> dict[int, RestoredNode]:
        """Return those of some nodes, by position, on which reservations decide what is free."""
        return {at: each for at, each in self.nodes.among(nodes).items() if not each.is_plain}


RESTORED: StateKey[Restored] = StateKey("DeviceShare/restored-reservations")


def restored_on(state: CycleState, node_name: str) -> RestoredNode:
    """Return what was restored on a node, empty if nothing was."""
    restored = state.read(RESTORED)
    return EMPTY if restored is None else restored.nodes.on(node_name) or EMPTY


def of_reservations(reservations: Iterable[ReservationInfo], held_by: HeldBy) -> list[Reusable]:
    """Return the reservations that hold devices, in their order."""
    found = []
    for info in reservations:
        allocatable = held_by(info.pod.metadata.namespace, info.pod.metadata.name)
        if not allocatable:
            continue
        of_owners = (held_by(owner.namespace, owner.name) for owner in info.assigned.values())
        allocated = total_of_minors(minors_of(allocatable), *of_owners)
        found.append(Reusable(info, allocatable, allocated, difference(allocatable, allocated)))
    return found


def of_pods(info: ReservationInfo, pods: Iterable[Pod], held_by: HeldBy) -> list[Reusable]:
    """Return the running pods that hold devices, for a Reservation that may take them over."""
    found = []
    for pod in pods:
        allocatable = held_by(pod.metadata.namespace, pod.metadata.name)
        if allocatable:
            found.append(Reusable(info, allocatable, NONE, allocatable, taken_over=pod))
    return found
