"""What fits: a pod on a node beside its other reservations, and a pod into a reservation.

Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go` (`fitsNode`, `fitsReservation`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from koordpy.api.resources import Vector
from koordpy.scheduling.interface.reservation_info import ReservationInfo

_PLAIN = (CPU, MEMORY, EPHEMERAL_STORAGE)

_NOTHING: Vector = {}


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What is known of a node: in vectors, and counts of pods."""

    allocatable: Vector
    requested: Vector
    """What pods and reservations take, without what the pods of unmatched reservations use twice."""
    pods: int
    """Pods on the node."""
    allocated: Vector
    """What pods use of the matched reservations."""


def lacking_on_node(
    needs: Vector,
    room: NodeRoom,
    ignores: Callable[[str], bool],
    *,
    available: Vector = _NOTHING,
    leaving: int = 0,
    preemptible: Vector = _NOTHING,
) -> list[str]:
    """Return the resources that a node lacks for a request.

    `available` is what one reservation adds, `leaving` the number of pods that make way, `preemptible` what
    they free.
    """
    lacking = []
    if room.pods - leaving + 1 > room.allocatable.get(PODS, 0):
        lacking.append(PODS)
    scalars = [name for name in needs if name not in _PLAIN and name != PODS]
    if not scalars and not any(needs.get(name) for name in _PLAIN):
        return lacking
    for name in (*_PLAIN, *(name for name in scalars if not ignores(name))):
        taken = room.requested.get(name, 0) - available.get(name, 0)
        taken -= room.allocated.get(name, 0) + preemptible.get(name, 0)
        if needs.get(name, 0) > room.allocatable.get(name, 0) - taken:
            lacking.append(name)
    return lacking


def lacking_in_reservation(
    requests: Mapping[str, Quantity],
    info: ReservationInfo,
    ignores: Callable[[str], bool],
    *,
    preemptible: Mapping[str, Quantity],
    detailed: bool,
) -> list[str]:
    """Say what a reservation lacks for a request, one reason a resource; with numbers if `detailed`."""
    reasons = []
    most = info.allocatable.get(PODS)
    if most is not None:
        used = len(info.assigned) - preemptible.get(PODS, ZERO).value()
        if used + 1 > most.value():
            detail = f", requested: 1, used: {used}, capacity: {most.value()}" if detailed else ""
            reasons.append(f"Too many pods{detail}")
    allocated = info.allocated or {}
    for name in info.resource_names:
        wanted = requests.get(name)
        if wanted is None or wanted.is_zero or ignores(name):
            continue
        capacity = info.allocatable.get(name, ZERO) - info.reserved.get(name, ZERO)
        taken = allocated.get(name, ZERO)
        if name in allocated and name in preemptible:
            taken = max(taken - preemptible[name], ZERO)
        if wanted > capacity - taken:
            detail = (
                f", requested: {_shown(name, wanted)}, used: {_shown(name, taken)}, "
                f"capacity: {_shown(name, capacity)}"
                if detailed
                else ""
            )
            reasons.append(f"Insufficient {name}{detail}")
    return reasons


def _shown(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()
