"""What nodes with reservations for the pod offer it, as columns: each offer is a form of its node.

A node offers what no reservation holds, and with each of its matched reservations what remains of that one
besides. See `reservations.allocate` for the same on one node. Reservations of the policy Restricted, and
those that take over running pods, are left to it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from koordpy.api.reservation import RESTRICTED
from koordpy.cluster.columns import Bool, Int64

from ..attempt.preemptible import sum_up
from ..cpus import policies
from ..reservations.reusable import NodeReusable
from ..state.columns import NUMA_NODES, CPURows, OfferedCPUs
from ..state.ledger import CPULedger
from ..state.node_allocation import NodeAllocation
from ..topology.options import TopologyOptions
from .lent import Lent
from .zone_arrays import REQUIRED


def can_offer(reusable: NodeReusable) -> bool:
    """Return whether arrays may know what the reservations of a node offer."""
    return reusable.pre_allocation is None and all(
        item.info.policy != RESTRICTED for item in reusable.matched.values()
    )


@dataclass(frozen=True, slots=True)
class _NodeOffers:
    """What a node offers, (o,): with no reservation, with each matched one, and with all of them at once."""

    lent: Int64
    """(o, R, K) amounts that do not count as allocated."""
    named: Bool
    """(o, R, K) whether they are named, be they 0."""
    cpus: OfferedCPUs


@dataclass(frozen=True)
class Offers:
    """The offers that a pod may take of m nodes: at the indexes `at` (m,), ascending, among more nodes.

    `node` (o,) is whose they are, ascending, by position among the m nodes. `rows` are their columns, and
    `together` (m,) those of nodes whose matched reservations hold nothing. `uids` (o,) are those of the
    reservations, None for an offer without one.
    """

    at: Int64
    node: Int64
    rows: CPURows
    together: CPURows
    uids: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.at)

    def pick(self, some: Int64) -> "Offers":
        """Return those of some of the m nodes, by position, ascending; `at` is their order then."""
        chosen = np.zeros(len(self), np.bool_)
        chosen[some] = True
        kept = np.flatnonzero(chosen[self.node])
        number = np.cumsum(chosen) - 1
        uids = [self.uids[each] for each in kept.tolist()]
        rows, together = self.rows.pick(kept), self.together.pick(some)
        return Offers(np.arange(len(some)), number[self.node[kept]], rows, together, uids)

    def among(self, nodes: Int64, count: int) -> "Offers":
        """Return those of some nodes, by index among all `count` ones, ascending; `at` is among them then."""
        if not len(self) or len(nodes) == count:
            return self
        position = np.full(count, -1)
        position[nodes] = np.arange(len(nodes))
        at = position[self.at]
        return replace(self.pick(np.flatnonzero(at >= 0)), at=at[at >= 0])

    def any(self, found: Bool) -> Bool:
        """Return (..., m) whether something holds of any offer of each node, for each offer (..., o)."""
        starts = np.searchsorted(self.node, np.arange(len(self)))
        return np.logical_or.reduceat(found, starts, axis=-1)

    @cached_property
    def _places(self) -> Mapping[tuple[int, str | None], int]:
        return {key: at for at, key in enumerate(zip(self.node.tolist(), self.uids, strict=True))}

    def place(self, node: int, uid: str | None) -> int:
        """Return the position of a node's offer with a reservation, -1 if there is none."""
        return self._places.get((node, uid), -1)

    def chosen(self, uids: Iterable[str | None]) -> CPURows:
        """Return the columns (m,) of the offers with given reservations, or without where there is none."""
        places = [self.place(node, uid) for node, uid in enumerate(uids)]
        own = [self.place(node, None) if place < 0 else place for node, place in enumerate(places)]
        return self.rows.pick(np.array(own, np.int64))


class ReservationOffers:
    """Reads offers from what is allocated at present; they are kept with what reservations hold."""

    def __init__(self, ledger: CPULedger) -> None:
        self._ledger = ledger

    def of(
        self,
        offering: Mapping[int, tuple[str, NodeReusable]],
        rows: CPURows,
        required: Int64,
        *,
        with_node: bool,
    ) -> tuple[Offers, Bool]:
        """Return the offers of some of n nodes, and (n,) on which of them they are not known.

        `offering` are these nodes with their names, by position, ascending; `rows` are the columns of all n,
        `required` (n,) is the bind policy by position, and `with_node` whether the pod may do without any
        reservation.
        """
        unknown = np.zeros(len(required), np.bool_)
        candidates = np.array(list(offering), np.int64)
        zones, policies_of = rows.number("zones")[candidates].tolist(), required[candidates].tolist()
        offered = rows.pick(candidates).offered
        at: list[int] = []
        found: list[_NodeOffers] = []
        uids: list[str | None] = []
        for place, (index, (name, reusable)) in enumerate(offering.items()):
            offers = self._of_node(name, reusable, policies_of[place], zones[place], rows.resources)
            if offers is not None and not (offers.named & ~offered[place]).any():
                at.append(index)
                found.append(offers)
                uids += [*([None] if with_node else []), *reusable.matched]
        here = np.array(at, np.int64)
        unknown[candidates], unknown[here] = True, False
        return _joined(here, rows.pick(here), found, uids, begin=0 if with_node else 1), unknown

    def _of_node(
        self, name: str, reusable: NodeReusable, policy: int, zones: int, resources: tuple[str, ...]
    ) -> _NodeOffers | None:
        """Return the offers of a node, None if arrays cannot hold them."""
        held = self._ledger.node(name)
        if held is None or policy >= len(REQUIRED):
            return None
        options = self._ledger.options(name)
        return reusable.kept(
            (self._ledger.version(name), policy, zones, resources),
            lambda: _offers(reusable, held, options, policy, zones, resources),
        )


def _offers(
    reusable: NodeReusable,
    held: NodeAllocation,
    options: TopologyOptions,
    policy: int,
    zones: int,
    resources: tuple[str, ...],
) -> _NodeOffers | None:
    """Return the offers of a node by what is allocated there."""
    items = reusable.matched.values()
    if not reusable.matched_cpus <= held.allocated_cpus.keys():
        return None
    amounts = [
        reusable.owners_use,
        *(sum_up(reusable.owners_use, item.remained) for item in items),
        sum_up(reusable.unmatched_used, reusable.matched_allocatable),
    ]
    lent = [Lent.of(each, zones, resources) for each in amounts]
    # With each reservation all CPUs of matched ones are preferred, as in Koordinator.
    preferred = [frozenset[int](), *[reusable.matched_cpus] * len(items), reusable.matched_remained_cpus]
    cpus = {each: _cpus(held, options, policy, each) for each in set(preferred)}
    if not all(each.is_exact for each in lent) or None in cpus.values():
        return None
    return _NodeOffers(
        np.array([each.amounts for each in lent]),
        np.array([each.named for each in lent]),
        _each(np.array, [found for each in preferred if (found := cpus[each]) is not None]),
    )


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
    numbers = (len(suitable), len(suitable & preferred), returned)
    total, all_preferred, back = (np.array(number, np.int32) for number in numbers)
    return OfferedCPUs(counts, total, of_preferred, all_preferred, back)


def _joined(
    at: Int64, rows: CPURows, found: Sequence[_NodeOffers], uids: Sequence[str | None], *, begin: int
) -> Offers:
    """Return the offers of nodes (m,), of each from the position `begin` on."""
    sizes = np.array([len(each.lent) for each in found], np.int64)
    node = np.repeat(np.arange(len(found)), sizes)
    place = np.arange(len(node)) - (np.cumsum(sizes) - sizes)[node]
    last = place == sizes[node] - 1
    if not found:
        return Offers(at, node, rows, rows, uids)
    lent = np.concatenate([each.lent for each in found])
    cpus = _each(np.concatenate, [each.cpus for each in found])
    each, all_of_node = np.flatnonzero((place >= begin) & ~last), np.flatnonzero(last)
    return Offers(
        at,
        node[each],
        rows.pick(node[each]).lending(lent[each], cpus.pick(each)),
        rows.lending(lent[all_of_node], cpus.pick(all_of_node)),
        uids,
    )


def _each(join: Callable[[list[Any]], Any], parts: Sequence[OfferedCPUs]) -> OfferedCPUs:
    """Return the CPUs of several offers, or of several nodes with offers, joined."""
    return OfferedCPUs(
        join([each.counts for each in parts]),
        join([each.totals for each in parts]),
        join([each.preferred for each in parts]),
        join([each.all_preferred for each in parts]),
        join([each.returned for each in parts]),
    )
