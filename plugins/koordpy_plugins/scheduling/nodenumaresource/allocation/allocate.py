"""Allocates to a pod on one node what it requests: amounts of the NUMA nodes of its affinity, and CPUs.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/resource_manager.go` (`Allocate`) and `plugin.go`
(`tryAllocateFromNode`).
"""

from typing import Final

from koordpy.api.resource_list import Quantities
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager import bitmask

from ..attempt.preemptible import NUMAResources, sum_up
from ..cpus import policies
from ..cpus.accumulator import NOT_ENOUGH, NotEnoughCPUs
from ..state.pod_allocation import PodAllocation
from ..topology.cpu_topology import InvalidTopology
from .cpu_sets import allocate_cpus
from .distribution import distribute
from .request import Offer, Request

NO_NUMA_NODES: Final = "insufficient resources on NUMA Node"

Allocated = tuple[PodAllocation | None, Status]


def allocate(request: Request, offer: Offer) -> Allocated:
    """Return what a pod gets by an offer, or why it gets nothing. Nothing changes but `offer.required`."""
    request.made_by(offer)
    shares: dict[int, Quantities] = {}
    if request.affinity is not None:
        shares, status = _numa_shares(request, offer, request.affinity)
        if not status.is_success:
            return None, status
    cpus: frozenset[int] = frozenset()
    if request.bind:
        try:
            cpus = allocate_cpus(request, offer, shares)
        except (NotEnoughCPUs, InvalidTopology) as error:
            return None, Status.unschedulable(str(error))
    meta = request.pod.metadata
    exclusive = request.state.exclusive_policy
    return PodAllocation(meta.uid, meta.namespace, meta.name, cpus, exclusive, shares), SUCCESS


def _numa_shares(request: Request, offer: Offer, mask: int) -> tuple[dict[int, Quantities], Status]:
    if not request.options.numa_resources:
        return {}, Status.unresolvable(NO_NUMA_NODES)
    try:
        available = offer.amounts
    except InvalidTopology as error:
        return {}, Status.unresolvable(str(error))
    shares, short = distribute(
        request.pod_requests if request.bind else request.requests,
        available,
        list(bitmask.bits(mask)),
        whole_cpus=_whole_cpus(request),
    )
    if short:
        return {}, Status.unschedulable(*(f"Insufficient NUMA {name}" for name in short))
    return shares, SUCCESS


def _whole_cpus(request: Request) -> int:
    """Return of how many CPUs a NUMA node's share is a multiple, 0 for any fraction."""
    if not request.bind:
        return 0
    topology = request.options.cpu_topology
    if request.is_required and request.bind_policy == policies.FULL_PCPUS and topology is not None:
        return max(topology.cpus_per_core, 1)
    return 1


def allocate_from_node(
    request: Request, owners_use: NUMAResources, *, designated_with: frozenset[int] | None = None
) -> Allocated:
    """Allocate what no reservation holds.

    `owners_use` is what pods have of reservations: it is counted twice, for them and for the reservation.
    With `designated_with` a designated allocation must be met exactly, from these CPUs of reservations too.
    """
    if designated_with is not None and request.state.designated is not None:
        return _allocate_designated(request, designated_with)
    offer = request.offers.get(None)
    if offer is None:
        reusable, preemptible = dict(owners_use), frozenset[int]()
        if request.preemptible is not None and request.preemptible.node is not None:
            reusable = request.preemptible.node.resources_with(reusable)
            preemptible = request.preemptible.node.cpus_with(preemptible)
        offer = request.offers[None] = Offer(request, reusable, given_back=(preemptible,))
    return allocate(request, offer)


def _allocate_designated(request: Request, lent: frozenset[int]) -> Allocated:
    """Allocate the designated CPUs and amounts.

    In Koordinator all designated CPUs count as held by one pod less, so two pods may get the same ones. Here
    only those do that the pod may take from reservations (`lent`).
    """
    designated = request.state.designated
    assert designated is not None
    reusable: NUMAResources = request.offer.reusable
    preemptible: frozenset[int] = frozenset()
    if designated.numa_resources:
        try:
            request.affinity = bitmask.of(designated.numa_resources)
        except ValueError as error:
            return None, Status.unresolvable(str(error))
    if request.preemptible is not None and request.preemptible.node is not None:
        reusable = request.preemptible.node.resources_with(sum_up(reusable))
        preemptible = request.preemptible.node.cpus_with(preemptible)
    required = designated.numa_resources
    found, status = allocate(
        request, Offer(request, reusable, designated.cpus, (lent, preemptible), required)
    )
    if found is not None and found.cpus != designated.cpus:
        return None, Status.unschedulable(NOT_ENOUGH)
    return found, status
