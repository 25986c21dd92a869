"""What a Restricted reservation lacks for a pod, as reasons."""

from collections.abc import Mapping

from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.resource_names import CPU, PODS
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .rules import Ignores, compared_in_reservation, left_in_reservation


def lacking_in_reservation(
    requests: Mapping[str, Quantity],
    info: ReservationInfo,
    ignores: Ignores,
    *,
    preemptible: Mapping[str, Quantity],
    detailed: bool,
) -> list[str]:
    """Return what a reservation lacks for a request, a reason for each resource.

    `preemptible` is what preemption would free in it. With `detailed` reasons have numbers.
    """
    reasons = []
    most = info.allocatable.get(PODS)
    if most is not None:
        used = len(info.assigned) - preemptible.get(PODS, ZERO).value()
        if left_in_reservation(most.value(), 0, used) < 1:
            detail = f", requested: 1, used: {used}, capacity: {most.value()}" if detailed else ""
            reasons.append(f"Too many pods{detail}")
    allocated = info.allocated or {}
    for name in compared_in_reservation(info.resource_names, requests, ignores):
        wanted = requests[name]
        total, reserved = info.allocatable.get(name, ZERO), info.reserved.get(name, ZERO)
        used_of = allocated.get(name, ZERO)
        if name in allocated and name in preemptible:
            used_of = max(used_of - preemptible[name], ZERO)
        if wanted > left_in_reservation(total, reserved, used_of):
            detail = (
                f", requested: {_shown(name, wanted)}, used: {_shown(name, used_of)}, "
                f"capacity: {_shown(name, total - reserved)}"
                if detailed
                else ""
            )
            reasons.append(f"Insufficient {name}{detail}")
    return reasons


def _shown(name: str, amount: Quantity) -> int:
    return amount.milli_value() if name == CPU else amount.value()
