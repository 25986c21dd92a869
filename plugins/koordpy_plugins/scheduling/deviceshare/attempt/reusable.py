"""Allocation of devices that reservations hold, or running pods that a Reservation takes over.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/reservation.go`.
"""

from collections.abc import Sequence
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.device_allocations import DeviceAllocations
from koordpy.api.reservation import RESTRICTED
from koordpy.api.reservation_annotations import is_ignored_by
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..amounts import NodeAmounts, minors_of, total, total_of_minors
from ..reservations.restored import Reusable
from .node_attempt import NOTHING, NodeAttempt

INSUFFICIENT_GPUS: Final = "Insufficient GPU Devices"

_PREFIX: Final = "Reservation(s) "


def try_reusable(
    attempt: NodeAttempt,
    pod: Pod,
    items: Sequence[Reusable],
    base: NodeAmounts,
    *,
    required: bool,
) -> tuple[DeviceAllocations, Status]:
    """Allocate with the first of some reservations by which it succeeds; nothing, with Success, if none.

    With `required` it fails instead, unless there are no items. `base` is what counts as free besides.
    """
    if not items:
        return NOTHING, SUCCESS
    if is_ignored_by(pod):
        return ignoring_reservations(attempt, base)
    restored = attempt.restored
    base = total(base, restored.matched_allocated)
    found: DeviceAllocations = NOTHING
    reasons: list[str] = []
    for item in items:
        found, status = _allocate(attempt, item, base)
        takes_over = restored.pre_allocation is not None and _is_restricted(item)
        if status.is_success and takes_over and not _includes(found, item.allocatable):
            # What is rejected stays what is found, unless a later item fails: as in Koordinator.
            status = Status.unschedulable(INSUFFICIENT_GPUS)
        if status.is_success:
            return found, SUCCESS
        reasons.extend(status.reasons)
    if required:
        return NOTHING, Status.unschedulable(*(_PREFIX + reason for reason in reasons))
    return found, SUCCESS


def ignoring_reservations(attempt: NodeAttempt, base: NodeAmounts) -> tuple[DeviceAllocations, Status]:
    """Allocate from the node with all that its matched reservations have left."""
    restored = attempt.restored
    left = [
        amounts
        for item in restored.matched
        for amounts in (attempt.preemptible_of(item.reservation.uid), item.remained)
    ]
    return attempt.allocate(total(*left, base, restored.matched_allocated))


def allocate_within_filter(attempt: NodeAttempt, *, required: bool) -> tuple[DeviceAllocations, Status]:
    """Allocate as Filter does: with any matched reservation, else with all that they hold as free."""
    base = attempt.base
    found, status = try_reusable(attempt, attempt.pod, attempt.restored.matched, base, required=required)
    if found or not status.is_success:
        return found, status
    return attempt.allocate(total(base, attempt.restored.matched_allocatable))


def score_with(attempt: NodeAttempt, item: Reusable) -> tuple[int, Status]:
    """Return the score of a node's devices with one reservation."""
    preemptible = attempt.preemptible_of(item.reservation.uid)
    free = total(attempt.base, attempt.restored.matched_allocated, item.remained, preemptible)
    return attempt.score(free, cap_of(item, preemptible) if _is_restricted(item) else None)


def cap_of(item: Reusable, preemptible: NodeAmounts) -> NodeAmounts:
    """Return the most that a pod may take of each reserved device of a Restricted reservation.

    Types with nothing left are not capped while others have something left; if nothing is left at all, no
    device of a reserved type may be taken.
    """
    minors = minors_of(item.allocatable)
    cap = total_of_minors(minors, item.remained, preemptible)
    return cap or {type_: {minor: {} for minor in of_type} for type_, of_type in minors.items()}


def _allocate(attempt: NodeAttempt, item: Reusable, base: NodeAmounts) -> tuple[DeviceAllocations, Status]:
    preemptible = attempt.preemptible_of(item.reservation.uid)
    free = total(base, item.remained, preemptible)
    preferred = minors_of(item.allocatable)
    if not _is_restricted(item):
        return attempt.allocate(free, preferred=preferred)
    takes_over = attempt.restored.pre_allocation is not None
    cap = None if takes_over else cap_of(item, preemptible)
    return attempt.allocate(free, required=preferred, preferred=preferred, cap=cap)


def _is_restricted(item: Reusable) -> bool:
    return item.reservation.policy == RESTRICTED


def _includes(found: DeviceAllocations, held: NodeAmounts) -> bool:
    """Return whether an allocation has all devices that a pod holds."""
    return all(
        type_ in found and set(minors) <= {device.minor for device in found[type_]}
        for type_, minors in held.items()
    )
