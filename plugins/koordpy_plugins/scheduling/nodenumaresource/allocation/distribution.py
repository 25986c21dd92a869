"""Splits what a pod requests evenly among NUMA nodes.

NUMA nodes with little available come first, so that the others make up for them, but the order is by the
availability of the NUMA nodes 0, 1, 2..., not of those at these positions: that is Koordinator's order, and
amounts in annotations follow from it. Source: Koordinator,
`pkg/scheduler/plugins/nodenumaresource/resource_manager.go` (`tryBestToDistributeEvenly`).
"""

from collections.abc import Iterable, Mapping, Sequence

from koordpy.api.extension import CPU
from koordpy.api.quantity import UNSET, Quantity
from koordpy.api.resource_amounts import Amounts
from koordpy.api.resource_list import Quantities
from koordpy.lib import int64


def distribute(
    requests: Amounts,
    available: Mapping[int, Amounts],
    nodes: Sequence[int],
    *,
    whole_cpus: int,
) -> tuple[dict[int, Quantities], list[str]]:
    """Return amounts by NUMA node, ascending, and the names of resources of which there is not enough.

    `nodes` are ascending. Resources that no NUMA node has are left out. CPUs are split in multiples of
    `whole_cpus`, in thousandths if it is 0.
    """
    known = {name for amounts in available.values() for name in amounts}
    shares: dict[int, Quantities] = {}
    short: list[str] = []
    for name in sorted(requests):
        if name not in known:
            continue
        left = requests[name]
        order = _ordered(nodes, [available.get(at, {}).get(name, UNSET) for at in range(len(nodes))])
        for at, node in enumerate(order):
            part = _part(name, left, len(order) - at, whole_cpus)
            offered = available.get(node, {}).get(name, UNSET)
            got = part if part < offered else offered
            if not got.is_zero:
                shares.setdefault(node, {})[name] = got
                left -= got
        if not left.is_zero:
            short.append(name)
    return {node: shares[node] for node in sorted(shares)}, short


def _ordered(nodes: Iterable[int], by_position: Sequence[Quantity]) -> list[int]:
    """Return the NUMA nodes after an insertion sort that compares what is at positions, not the nodes."""
    order = list(nodes)
    for end in range(1, len(order)):
        at = end
        while at > 0 and by_position[at] < by_position[at - 1]:
            order[at], order[at - 1] = order[at - 1], order[at]
            at -= 1
    return order


def _part(name: str, amount: Quantity, nodes: int, whole_cpus: int) -> Quantity:
    """Return what the first of some NUMA nodes should give."""
    if name != CPU:
        return Quantity.of(int64.quotient(amount.value(), nodes), amount.format)
    if not whole_cpus:
        return Quantity.of_milli(int64.quotient(amount.milli_value(), nodes), amount.format)
    cores = int64.quotient(amount.value(), whole_cpus)
    return Quantity.of(int64.quotient(cores, nodes) * whole_cpus, amount.format)
