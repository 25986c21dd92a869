"""The CPUs of a pod on one node.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/resource_manager.go` (`allocateCPUSet`).
"""

from collections.abc import Mapping

from koordpy.api.extension import CPU
from koordpy.api.quantity import ZERO
from koordpy.api.resource_amounts import Amounts

from ..cpus import policies
from ..cpus.accumulator import NOT_ENOUGH, NotEnoughCPUs
from ..cpus.preferred import take_preferred
from .request import Offer, Request


def allocate_cpus(request: Request, offer: Offer, shares: Mapping[int, Amounts]) -> frozenset[int]:
    """Return the CPUs of a pod, from NUMA nodes as `shares` of cpu say if there are any.

    Raises NotEnoughCPUs and InvalidTopology.
    """
    topology = offer.topology
    if topology is None:
        raise NotEnoughCPUs(NOT_ENOUGH)
    available, allocated = offer.suitable_cpus, offer.allocated_cpus
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
