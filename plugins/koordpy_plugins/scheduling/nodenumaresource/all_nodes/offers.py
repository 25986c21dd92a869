"""What nodes with reservations for the pod offer it, as columns: forms of offers are forms of their nodes.

Left to `reservations.allocate` are reservations that take over running pods, and Restricted ones that are
trimmed as they are tried, because a required bind policy allows fewer CPUs than remain.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from koordpy.cluster.columns import Bool, Int64

from ..reservations.reusable import NodeReusable
from ..state.columns import CPURows
from ..state.ledger import CPULedger
from ..state.offered import OfferedAmounts, OfferedCPUs
from .node_offers import NodeOffers, offers_of
from .zone_arrays import REQUIRED


@dataclass(frozen=True)
class Offers:
    """The offers that a pod may take of m nodes: at the indexes `at` (m,), ascending, among more nodes.

    `node` (o,) is whose they are, ascending, by position among the m nodes. `rows` (f,) are the columns of
    their forms, `offer` (f,) is whose these are, ascending: all forms of an offer must serve a pod, and it
    gets what the last one gives. `together` (m,) are the columns of nodes whose matched reservations hold
    nothing. `uids` (o,) are those of the reservations, None for an offer without one.
    """

    at: Int64
    node: Int64
    offer: Int64
    rows: CPURows
    together: CPURows
    uids: Sequence[str | None]

    def __len__(self) -> int:
        return len(self.at)

    @property
    def node_of_form(self) -> Int64:
        """(f,) the position of a form's node."""
        return self.node[self.offer]

    def pick(self, some: Int64) -> "Offers":
        """Return those of some of the m nodes, by position, ascending; `at` is their order then."""
        node, kept_nodes = _kept(self.node, some, len(self))
        offer, kept = _kept(self.offer, kept_nodes, len(self.node))
        uids = [self.uids[each] for each in kept_nodes.tolist()]
        rows, together = self.rows.pick(kept), self.together.pick(some)
        return Offers(np.arange(len(some)), node, offer, rows, together, uids)

    def among(self, nodes: Int64, count: int) -> "Offers":
        """Return those of some nodes, by index among all `count` ones, ascending; `at` is among them then."""
        if not len(self) or len(nodes) == count:
            return self
        position = np.full(count, -1)
        position[nodes] = np.arange(len(nodes))
        at = position[self.at]
        return replace(self.pick(np.flatnonzero(at >= 0)), at=at[at >= 0])

    def any(self, found: Bool) -> Bool:
        """Return (..., m) whether all forms of any offer have something, for forms (..., f)."""
        if len(self.offer) != len(self.node):
            found = np.logical_and.reduceat(found, self.first_forms, axis=-1)
        starts = np.searchsorted(self.node, np.arange(len(self)))
        return np.logical_or.reduceat(found, starts, axis=-1)

    @cached_property
    def first_forms(self) -> Int64:
        """(o,) the positions of the first form of each offer."""
        return np.searchsorted(self.offer, np.arange(len(self.node)))

    @cached_property
    def last_forms(self) -> Int64:
        """(o,) the positions of the last form of each offer, which is the first one of most."""
        return np.searchsorted(self.offer, np.arange(len(self.node)), side="right") - 1

    @cached_property
    def _places(self) -> Mapping[tuple[int, str | None], int]:
        return {key: at for at, key in enumerate(zip(self.node.tolist(), self.uids, strict=True))}

    def place(self, node: int, uid: str | None) -> int:
        """Return the position of a node's offer with a reservation, -1 if there is none."""
        return self._places.get((node, uid), -1)

    def chosen(self, uids: Iterable[str | None]) -> Int64:
        """Return the positions (m,) of the offers with given reservations, or without where there is none."""
        places = [self.place(node, uid) for node, uid in enumerate(uids)]
        own = [self.place(node, None) if place < 0 else place for node, place in enumerate(places)]
        return np.array(own, np.int64)


def _kept(owners: Int64, some: Int64, count: int) -> tuple[Int64, Int64]:
    """Return whose the things of some of `count` owners are, by position among these, and which these are.

    `owners` are ascending, as are those of whom the things are kept.
    """
    chosen = np.zeros(count, np.bool_)
    chosen[some] = True
    kept = np.flatnonzero(chosen[owners])
    return (np.cumsum(chosen) - 1)[owners[kept]], kept


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
        found: list[NodeOffers] = []
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
    ) -> NodeOffers | None:
        """Return the offers of a node, None if arrays cannot hold them."""
        held = self._ledger.node(name)
        if held is None or policy >= len(REQUIRED):
            return None
        options = self._ledger.options(name)
        return reusable.kept(
            (self._ledger.version(name), policy, zones, resources),
            lambda known: offers_of(known, held, options, policy, zones, resources),
        )


def _joined(
    at: Int64, rows: CPURows, found: Sequence[NodeOffers], uids: Sequence[str | None], *, begin: int
) -> Offers:
    """Return the offers of nodes (m,), of each from the position `begin` on."""
    node = np.repeat(np.arange(len(found)), [len(each.lent) for each in found])
    if not found:
        return Offers(at, node, node, rows, rows, uids)
    place = np.concatenate([each.offer for each in found])
    last = np.flatnonzero(np.diff(node, append=len(found)))
    some = np.flatnonzero((place >= begin) & (place != place[last][node]))
    is_first = np.diff(place[some], prepend=-1) != 0
    is_first |= np.diff(node[some], prepend=-1) != 0
    lent = np.concatenate([each.lent for each in found])
    cpus = OfferedCPUs.joined(np.concatenate, [each.cpus for each in found])
    amounts = None
    if any(each.amounts is not None for each in found):
        parts = [each.amounts or OfferedAmounts.of_none(each.lent) for each in found]
        amounts = OfferedAmounts.joined(parts).pick(some)
    return Offers(
        at,
        node[some][is_first],
        np.cumsum(is_first) - 1,
        rows.pick(node[some]).lending(lent[some], cpus.pick(some), amounts),
        rows.lending(lent[last], cpus.pick(last)),
        uids,
    )
