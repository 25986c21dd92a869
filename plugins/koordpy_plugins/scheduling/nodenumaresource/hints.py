"""Which sets of NUMA nodes can serve a pod.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/resource_manager.go` (`GetTopologyHints`,
`generateResourceHints`).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, islice
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.quantity import UNSET
from koordpy.api.resource_amounts import Amounts, minus_not_negative, total
from koordpy.scheduling.interface import NUMATopologyHint, shared_hint
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.policy import NUMATopologyPolicy

from .allocation.allocate import NO_NUMA_NODES, allocate_from_node
from .allocation.request import Offer, Request
from .attempt.preemptible import NUMAResources, sum_up
from .reservations.allocate import allocate_reusable
from .reservations.reusable import NodeReusable
from .scorer import Scorer, amounts_of

MOST_MASKS: Final = 1023
"""How many sets of NUMA nodes are tried, small ones first: all sets of ten. Koordinator tries all sets of any
number, which would take hours for a NodeResourceTopology of 32 zones; Kubernetes allows 8."""

_NO_CPUS: Final[frozenset[int]] = frozenset()

Hints = Mapping[str, Sequence[NUMATopologyHint]]


class NoHints(Exception):
    """The node has no NUMA nodes."""

    def __init__(self) -> None:
        super().__init__(NO_NUMA_NODES)


def topology_hints(request: Request, reusable: NodeReusable, policy: str, scorer: Scorer, pod: Pod) -> Hints:
    """Return by requested resource the sets of NUMA nodes that can serve it, fewest first.

    Resources that no NUMA node has are left out; those that cannot be served have no hints. Raises NoHints
    and InvalidTopology.
    """
    zones = request.options.numa_resources
    if not zones:
        raise NoHints
    available = _available(request, reusable)
    lacking = _lacking(zones, available)
    found: dict[str, list[tuple[int, int]]] = {}
    wanted = amounts_of(request.requests)
    for nodes in _subsets(tuple(zones)):
        there = total(zones[node] for node in nodes)
        for name in request.requests:
            if name in there:
                found.setdefault(name, [])
        mask = bitmask.of(nodes)
        if not _fits(request, reusable, mask, pod):
            continue
        left = total(available[node] for node in nodes)
        used = minus_not_negative(there, left)
        score = scorer.score(amounts_of(used), amounts_of(there), wanted)
        for name, hints in found.items():
            if not mask & lacking.get(name, 0):
                hints.append((mask, score))
    is_restricted = policy == NUMATopologyPolicy.RESTRICTED
    return {name: hints_of(hints, is_restricted=is_restricted) for name, hints in found.items()}


def _available(request: Request, reusable: NodeReusable) -> Mapping[int, Amounts]:
    """Return what is left on NUMA nodes, with what matched reservations hold and preemption would free."""
    resources: NUMAResources = sum_up(reusable.unmatched_used, reusable.matched_allocatable)
    preemptible = _NO_CPUS
    if request.preemptible is not None:
        of_node = (request.preemptible.node,) if request.preemptible.node is not None else ()
        for each in (*of_node, *request.preemptible.reservations.values()):
            resources = each.resources_with(resources)
            preemptible = each.cpus_with(preemptible)
    remained = reusable.matched_remained_cpus
    return request.made_by(Offer(request, resources, remained, (remained, preemptible))).amounts


def _lacking(zones: Mapping[int, Amounts], available: Mapping[int, Amounts]) -> dict[str, int]:
    """Return by resource the mask of NUMA nodes that have nothing left of it."""
    names = {name for amounts in zones.values() for name in amounts}
    return {
        name: bitmask.of(node for node, amounts in available.items() if amounts.get(name, UNSET).is_zero)
        for name in names
    }


def _subsets(nodes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return the sets of NUMA nodes that are tried, by size, then by position."""
    sizes = range(1, len(nodes) + 1)
    return islice(chain.from_iterable(combinations(nodes, size) for size in sizes), MOST_MASKS)


def _fits(request: Request, reusable: NodeReusable, mask: int, pod: Pod) -> bool:
    request.affinity = mask
    found, status = allocate_reusable(request, reusable, reusable.matched, pod)
    if status.is_success and found is None:
        _, status = allocate_from_node(request, reusable.owners_use)
    return status.is_success


def hints_of(found: Sequence[tuple[int, int]], *, is_restricted: bool) -> list[NUMATopologyHint]:
    """Return a resource's hints of masks, ascending by size, and scores.

    Restricted prefers all, other policies the smallest.
    """
    fewest = found[0][0].bit_count() if found else 0
    return [shared_hint(mask, is_restricted or mask.bit_count() == fewest, score) for mask, score in found]
