"""The CPUs of a pod on one node.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/resource_manager.go` (`allocateCPUSet`).
"""

from collections.abc import Mapping
from typing import Final

from koordpy.api.extension import CPU
from koordpy.api.quantity import ZERO
from koordpy.api.resource_amounts import Amounts

from ..cpus import policies
from ..cpus.accumulator import NOT_ENOUGH, AllocatedCPU, NotEnoughCPUs
from ..cpus.preferred import take_preferred
from ..topology.cpu_topology import CPUTopology
from .request import Offer, Request

INVALID_TOPOLOGY: Final = "node(s) invalid CPU Topology"


class InvalidTopology(Exception):
    """The CPUs of the node are not known."""

    def __init__(self) -> None:
        super().__init__(INVALID_TOPOLOGY)


def available_cpus(
    request: Request, offer: Offer
) -> tuple[frozenset[int], Mapping[int, AllocatedCPU], CPUTopology | None]:
    """Return the CPUs that a pod can get by an offer, how allocated ones count, and the CPU topology.

    Without a topology there are none; raises InvalidTopology for one without CPUs.
    """
    topology = request.options.cpu_topology
    if topology is None:
        return frozenset(), {}, None
    if not topology.is_valid:
        raise InvalidTopology
    available, allocated = request.held.available_cpus(request.options, *offer.given_back)
    return available, allocated, topology


def allocate_cpus(request: Request, offer: Offer, shares: Mapping[int, Amounts]) -> frozenset[int]:
    """Return the CPUs of a pod, from NUMA nodes as `shares` of cpu say if there are any.

    Raises NotEnoughCPUs and InvalidTopology.
    """
    available, allocated, topology = available_cpus(request, offer)
    if topology is None:
        raise NotEnoughCPUs(NOT_ENOUGH)
    if request.is_required:
        available = policies.filter_by_required(topology, available, request.bind_policy)
    if len(available) < request.num_cpus:
        raise NotEnoughCPUs(NOT_ENOUGH)

    def take(cpus: frozenset[int], need: int) -> set[int]:
        return take_preferred(
            topology,
            request.options.max_ref_count,
            cpus,
            allocated,
            offer.preferred,
            need,
            request.bind_policy,
            request.state.exclusive_policy,
            request.strategy,
        )

    taken: set[int] = set()
    for node, amounts in shares.items():
        on_node = available & topology.cpus_of_node(node)
        share = amounts.get(CPU, ZERO).milli_value() // 1000
        taken |= take(on_node, min(len(on_node), share))
    if not shares:
        taken = take(available, request.num_cpus)
    elif len(taken) != request.num_cpus:
        raise NotEnoughCPUs(NOT_ENOUGH)
    if request.is_required and not policies.satisfies_required(topology, taken, request.bind_policy):
        raise NotEnoughCPUs(policies.unsatisfied_message(request.bind_policy))
    return frozenset(taken)
