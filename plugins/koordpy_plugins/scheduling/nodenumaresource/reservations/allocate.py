"""Allocates from reservations, or from running pods that a Reservation takes over.

Where several reservations match, the first in their order that can serve the pod does; in Koordinator their
order is random. Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/reservation.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.reservation import ALIGNED, RESTRICTED
from koordpy.api.reservation_annotations import is_ignored_by
from koordpy.api.reserve_pod import is_pre_allocation, is_reserve_pod
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..allocation.allocate import Allocated, allocate
from ..allocation.request import Offer, Request
from ..attempt.preemptible import NUMAResources, Preemptible, sum_up
from ..cpus.accumulator import NOT_ENOUGH
from ..state.pod_allocation import PodAllocation
from .reusable import NodeReusable, Reusable

OUTSIDE_NUMA_SCOPE: Final = "pod has a nominated reservation but cannot be allocated within its NUMA scope"
_NO_CPUS: Final[frozenset[int]] = frozenset()
_DEFAULT: Final = ""


def allocate_reusable(
    request: Request, reusable: NodeReusable, items: Mapping[str, Reusable], pod: Pod
) -> Allocated:
    """Allocate from the first item that can serve a pod; neither allocation nor failure if none can.

    It is a failure if the pod requires a reservation. `pod` is the one that allocates: for an item that is a
    running pod, the reserve pod.
    """
    if not items:
        return None, SUCCESS
    if is_ignored_by(pod):
        return _allocate_from_all(request, reusable, items)
    attempt = _Attempt(request, reusable)
    for uid, item in items.items():
        if attempt.allocate_from(uid, item):
            return attempt.result, SUCCESS
    if request.state.requires_reservation or request.state.requires_pre_allocation:
        return None, Status.unschedulable(*(f"Reservation(s) {reason}" for reason in attempt.reasons))
    # What is left of a refused try counts, as in Koordinator.
    return attempt.result, SUCCESS


def _node_part(request: Request) -> Preemptible | None:
    return None if request.preemptible is None else request.preemptible.node


def _reservation_part(request: Request, item: Reusable) -> Preemptible | None:
    return None if request.preemptible is None else request.preemptible.reservations.get(item.info.uid)


@dataclass(slots=True)
class _Attempt:
    """Tries one item after the other."""

    request: Request
    reusable: NodeReusable
    result: PodAllocation | None = None
    """What the last try found that came as far as allocating for good; a later check may have refused it."""
    reasons: list[str] = field(default_factory=list)

    def allocate_from(self, uid: str, item: Reusable) -> bool:
        """Allocate from an item; return whether that is done."""
        offer = self._offer(uid, item)
        policy = item.info.policy
        if policy in (_DEFAULT, ALIGNED):
            self.result, status = allocate(self.request, offer)
            return self._noted(status)
        if policy == RESTRICTED:
            return self._noted(allocate(self.request, offer)[1]) and self._allocate_within(item)
        self.request.made_by(offer)
        return False

    def _offer(self, uid: str, item: Reusable) -> Offer:
        """Return the offer of an item, made once if nothing of it is trimmed."""
        if item.is_restricted:
            return self._made(item)
        offers = self.request.offers
        if uid not in offers:
            offers[uid] = self._made(item)
        return offers[uid]

    def _made(self, item: Reusable) -> Offer:
        """Offer what is free and what remains of the item; CPUs of all matched reservations."""
        resources: NUMAResources = self.reusable.owners_use
        preemptible = _NO_CPUS
        of_node, of_item = _node_part(self.request), _reservation_part(self.request, item)
        if of_node is not None:
            resources = of_node.resources_with(resources)
            preemptible = of_node.cpus_with(preemptible)
        resources = sum_up(resources, item.remained)
        if of_item is not None:
            resources = of_item.resources_with(resources)
            preemptible = of_item.cpus_with(preemptible)
        preferred = self.reusable.matched_cpus | item.remained_cpus
        return Offer(self.request, resources, preferred, (preferred, preemptible))

    def _allocate_within(self, item: Reusable) -> bool:
        """Allocate from a Restricted item alone."""
        request, is_taken_over = self.request, self.reusable.pre_allocation is not None
        of_node, of_item = _node_part(request), _reservation_part(request, item)
        reserved = preferred = item.remained_cpus
        preemptible, required = _NO_CPUS, item.remained
        if of_node is not None:
            preemptible |= item.allocatable_cpus & of_node.cpus_with(_NO_CPUS)
        if of_item is not None:
            required = {node: dict(amounts) for node, amounts in of_item.resources_with(required).items()}
            freed = item.allocatable_cpus & of_item.cpus_with(_NO_CPUS)
            preemptible, preferred, reserved = preemptible | freed, preferred | freed, reserved | freed
        within = None if is_taken_over else required
        offer = Offer(request, request.offer.reusable, preferred, (preferred, preemptible), within)
        request.made_by(offer)
        if request.bind and request.num_cpus > len(reserved):
            return self._noted(Status.unschedulable(NOT_ENOUGH))
        self.result, status = allocate(request, offer)
        if self.result is None:
            return self._noted(status)
        cpus = self.result.cpus
        fits = reserved <= cpus if is_taken_over else len(cpus) <= len(reserved)
        return self._noted(SUCCESS if fits else Status.unschedulable(NOT_ENOUGH))

    def _noted(self, status: Status) -> bool:
        self.reasons.extend(status.reasons)
        return status.is_success


def _allocate_from_all(request: Request, reusable: NodeReusable, items: Mapping[str, Reusable]) -> Allocated:
    """Allocate as if the reservations did not hold what remains of them."""
    resources: NUMAResources = reusable.owners_use
    preferred, preemptible = reusable.matched_cpus, _NO_CPUS
    of_node = _node_part(request)
    if of_node is not None:
        resources = of_node.resources_with(resources)
        preemptible = of_node.cpus_with(preemptible)
    for item in items.values():
        resources = sum_up(resources, item.remained)
        preferred |= item.remained_cpus
        of_item = _reservation_part(request, item)
        if of_item is not None:
            resources = of_item.resources_with(resources)
            preemptible |= item.allocatable_cpus & of_item.cpus_with(_NO_CPUS)
    return allocate(request, Offer(request, resources, preferred, (preferred, preemptible)))


def allocate_nominated(request: Request, reusable: NodeReusable, nominated: str | None) -> Allocated:
    """Allocate from what is nominated for the pod, in Score and Reserve; nothing if it needs nothing of it.

    `nominated` is the UID of the nominated reservation, or of the running pod that is taken over; None if
    there is none.
    """
    pod = request.pod
    is_reserve = is_reserve_pod(pod)
    if is_reserve and not is_pre_allocation(pod):
        return None, SUCCESS
    if is_ignored_by(pod):
        return _allocate_from_all(request, reusable, reusable.matched)
    if not reusable.matched:
        return None, SUCCESS
    if nominated is None or (is_reserve and reusable.pre_allocation is None):
        if is_reserve and request.state.requires_pre_allocation:
            return None, Status.unschedulable("no nominated pre-allocatable pod")
        if not is_reserve and request.state.requires_reservation:
            return None, Status.unschedulable("no nominated reservation")
        return None, SUCCESS
    item = reusable.matched.get(nominated)
    if item is None:
        return None, SUCCESS
    found, status = allocate_reusable(request, reusable, {nominated: item}, pod)
    if status.is_success and found is None:
        return None, Status.unschedulable(OUTSIDE_NUMA_SCOPE)
    return found, status
