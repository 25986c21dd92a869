"""What one node with reservations for the pod offers it.

A node offers what no reservation holds, and with each of its matched reservations what remains of that one
besides. With a Restricted one that must serve the pod, and so must what remains of it alone: such an offer
has two forms. See `reservations.allocate` for the same by trying it.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from koordpy.api.reservation import ALIGNED, RESTRICTED
from koordpy.cluster.columns import Bool, Int64

from ..attempt.preemptible import NUMAResources, sum_up
from ..cpus import policies
from ..reservations.reusable import NodeReusable, Reusable
from ..state.columns import NUMA_NODES
from ..state.node_allocation import NodeAllocation
from ..state.offered import OfferedAmounts, OfferedCPUs
from ..topology.options import TopologyOptions
from .lent import Lent
from .zone_arrays import REQUIRED

_POLICIES: Final = ("", ALIGNED, RESTRICTED)

_CPU: Final = 0
"""The position of cpu among the resources of columns."""

_ANY_NUMBER: Final = (1 << 31) - 1
"""Of CPUs."""


def can_offer(reusable: NodeReusable) -> bool:
    """Return whether arrays may know what the reservations of a node offer."""
    return reusable.pre_allocation is None and all(
        item.info.policy in _POLICIES for item in reusable.matched.values()
    )


@dataclass(frozen=True, slots=True)
class NodeOffers:
    """What a node offers, (f,): with no reservation, with each matched one, and with all of them at once.

    `offer` (f,) counts these offers; those with Restricted reservations have two forms. `lent` (f, R, K) are
    amounts that do not count as allocated, and `named` (f, R, K) is whether they are named, be they 0.
    """

    offer: Int64
    lent: Int64
    named: Bool
    cpus: OfferedCPUs
    amounts: OfferedAmounts | None


def offers_of(
    reusable: NodeReusable,
    held: NodeAllocation,
    options: TopologyOptions,
    policy: int,
    zones: int,
    resources: tuple[str, ...],
) -> NodeOffers | None:
    """Return what a node offers by what is allocated there; None if arrays cannot tell.

    `policy` is the position of the bind policy that is required, `zones` the mask of the NUMA nodes that have
    `resources`.
    """
    if not reusable.matched_cpus <= held.allocated_cpus.keys():
        return None
    forms = list(_forms(reusable))
    lent = [Lent.of(each.lent, zones, resources) for each in forms]
    alone = [Lent.of(each.amounts, zones, resources) for each in forms]
    cpus = {each: _cpus(held, options, policy, each) for each in {each.preferred for each in forms}}
    if not all(each.is_exact for each in (*lent, *alone)):
        return None
    offered: list[OfferedCPUs] = []
    for form, amounts in zip(forms, alone, strict=True):
        found = cpus[form.preferred]
        if found is None or _are_elsewhere(form.amounts, zones):
            return None
        if policy and (1000 * found.counts < amounts.amounts[_CPU]).any():
            return None  # trying it trims it
        offered.append(found)
    most = [_ANY_NUMBER if each.alone is None else len(each.preferred) for each in forms]
    # Where nothing remains, not even 0 of anything, what is free counts, as in Koordinator.
    is_all = [bool(each.amounts) for each in forms]
    return NodeOffers(
        np.array([each.offer for each in forms]),
        np.array([each.amounts for each in lent]),
        np.array([each.named for each in lent]),
        replace(OfferedCPUs.joined(np.array, offered), most=np.array(most, np.int32)),
        OfferedAmounts(
            np.array(is_all),
            np.array([each.amounts for each in alone]),
            np.array([each.named for each in alone]),
        )
        if any(is_all)
        else None,
    )


@dataclass(frozen=True, slots=True)
class _Form:
    """One form of a node's `offer`-th offer.

    `lent` amounts do not count as allocated, nor do CPUs in `preferred`, which are taken first. `alone` is
    the Restricted reservation, if the offer consists of that.
    """

    offer: int
    lent: NUMAResources
    preferred: frozenset[int]
    alone: Reusable | None = None

    @property
    def amounts(self) -> NUMAResources:
        """All that is offered; nothing if it is what is left."""
        return {} if self.alone is None else self.alone.remained


def _forms(reusable: NodeReusable) -> Iterator[_Form]:
    """Yield what a node offers without reservations, with each matched one, and with all of them at once."""
    yield _Form(0, reusable.owners_use, frozenset())
    for offer, item in enumerate(reusable.matched.values(), 1):
        lent = sum_up(reusable.owners_use, item.remained)
        # All CPUs of matched reservations are preferred, as in Koordinator.
        yield _Form(offer, lent, reusable.matched_cpus)
        if item.is_restricted:
            yield _Form(offer, lent, item.remained_cpus, item)
    everything = sum_up(reusable.unmatched_used, reusable.matched_allocatable)
    yield _Form(len(reusable.matched) + 1, everything, reusable.matched_remained_cpus)


def _are_elsewhere(amounts: NUMAResources, zones: int) -> bool:
    """Return whether there are amounts of NUMA nodes for which the node has no resources."""
    return any(node >= NUMA_NODES or not zones >> node & 1 for node in amounts)


def _cpus(
    held: NodeAllocation, options: TopologyOptions, policy: int, preferred: frozenset[int]
) -> OfferedCPUs | None:
    """Return the CPUs of one offer, scalars and (K,); None if their number does not decide what fits."""
    topology = options.cpu_topology
    counts, of_preferred = np.zeros(NUMA_NODES, np.int32), np.zeros(NUMA_NODES, np.int32)
    suitable: Set[int] = frozenset()
    if topology is not None and topology.is_valid:
        available, _ = held.available_cpus(options, preferred)
        suitable = policies.filter_by_required(topology, available, REQUIRED[policy])
        first = suitable & preferred
        whole = policies.FULL_PCPUS
        if REQUIRED[policy] == whole and first != policies.filter_by_required(topology, first, whole):
            return None  # a part of a core is preferred
        for cells, cpus in ((counts, suitable), (of_preferred, first)):
            for numa_node, count in topology.count_by_node(cpus).items():
                if numa_node < NUMA_NODES:
                    cells[numa_node] = count
    returned = sum(held.allocated_cpus[cpu].ref_count == 1 for cpu in preferred)
    numbers = (len(suitable), len(suitable & preferred), returned, _ANY_NUMBER)
    total, all_preferred, back, most = (np.array(number, np.int32) for number in numbers)
    return OfferedCPUs(counts, total, of_preferred, all_preferred, back, most)
