"""Which of the matched reservations a pod fits into, all of them at once.

The rules are those of `fit`, as in `filter.node`, applied to the arrays of the matchable reservations. Where
integers are not enough, or where a what-if or a preemption dry run moves pods, a reservation is *unsure*, and
its node has to be compared by `filter.node`.

Shapes: n nodes of a set, k matched reservations on them, m resources compared.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from koordpy.api.resource_names import PODS as PODS_NAME
from koordpy.cluster.columns import PODS, Bool, Int64
from koordpy.cluster.nodes import NodeSet, NodeTable

from ..attempt.prepared import Prepared
from ..attempt.requirements import PodRequirements
from ..attempt.reservation_fits import ReservationFits, by_node, positions
from ..fit import scoring
from ..fit.rules import Ignores, compared_on_node, left_on_node
from ..state.matchable import UNBOUNDED, MatchableReservations, plain


@dataclass(frozen=True, slots=True)
class Causes:
    """Why a pod does not fit into k matched reservations."""

    shortage: "Shortage"
    crowded: Bool
    """(k,) whether the node has too many pods."""
    full: Bool
    """(k,) whether the reservation has too many pods."""
    concerned: Bool
    """(k,) whether the reservation holds anything that the pod requests, if that matters."""

    @property
    def signature(self) -> Bool:
        """(k, any) everything on which the reasons of a refusal depend, where a node has one reservation."""
        lacking = self.shortage
        of_resources = (lacking.on_node, lacking.on_node_alone, lacking.inside)
        return np.column_stack((*of_resources, self.crowded, self.full, self.concerned))


def compare(
    prepared: Prepared,
    nodes: NodeSet,
    matchable: MatchableReservations,
    ignores: Ignores,
    class_of: Collection[str],
    *,
    skip_node_if_alone: bool,
    skip_node: bool,
) -> tuple[ReservationFits, Causes]:
    """Compare all matched reservations on the nodes of a set, which must be as the attempt sees them.

    With `skip_node`, or where a node has one matched reservation with `skip_node_if_alone`, the node may lack
    anything. `class_of` has the resources that are kube-scheduler's to allocate where a node offers none.
    """
    matches, table = prepared.matches, nodes.table
    at = positions(nodes)[matches.rows]
    chosen = np.flatnonzero((at >= 0) & matches.current)
    at, slots = at[chosen], matches.slots[chosen]
    first, sizes, group = by_node(at)
    count = np.repeat(sizes, sizes)
    rows = nodes.rows[at]

    request = _Request(prepared.requirements, table, ignores, class_of)
    shortage = Shortage(request, nodes, at, matchable, slots, first, group)
    # The view of the nodes leaves matched reserve pods out already; Koordinator subtracts them once more.
    crowded = left_on_node(table.allocatable[rows, PODS], nodes.requested(PODS)[at], count) < 1
    on_node: Bool = ~(shortage.on_node.any(axis=1) | crowded | request.impossible)
    if skip_node:
        on_node[:] = True
    elif skip_node_if_alone:
        on_node |= count == 1
    full = matchable.left[slots, PODS] < 1
    inside = ~(shortage.inside.any(axis=1) | full)
    concerned = request.is_concerned(matchable, slots)
    unsure = _unsure(prepared, request, table, matchable, slots, rows)
    found = ReservationFits(at, slots, chosen, first, group, concerned & on_node & inside, unsure)
    return found, Causes(shortage, crowded, full, concerned)


def _unsure(
    prepared: Prepared,
    request: "_Request",
    table: NodeTable,
    matchable: MatchableReservations,
    slots: Int64,
    rows: Int64,
) -> Bool:
    """(k,) where integers are not enough, or pods were moved by a dry run or placed by a what-if."""
    unsure: Bool = np.ones(len(slots), np.bool_) if request.inexact else ~matchable.exact[slots]
    changed = [*prepared.preemptible.rows(table), *prepared.matches.hypothetical.rows]
    if not changed:
        return unsure
    of_changed: Bool = np.asarray(np.isin(rows, changed), np.bool_)
    return unsure | of_changed


class _Request:
    """What a pod requests, by column of the node table."""

    def __init__(
        self,
        requirements: PodRequirements,
        table: NodeTable,
        ignores: Ignores,
        class_of: Collection[str],
    ) -> None:
        vector, requests = requirements.vector, requirements.requests
        names = [
            name
            for name in compared_on_node(vector, ignores)
            if name in table.resources or name not in class_of
        ]
        known = [name for name in names if name in table.resources]
        self.names = known
        """(m) the resources that are compared."""
        self.columns: Int64 = np.array([table.resource_column(name) for name in known], np.int64)
        """(m) their columns."""
        self.amounts: Int64 = np.array([vector.get(name, 0) for name in known], np.int64)
        """(m,) how much of them the pod requests."""
        self.has_class: Bool = np.array([name in class_of for name in known], np.bool_)
        """(m,) which of them a DeviceClass backs."""
        self.impossible = any(vector.get(name, 0) > 0 for name in names if name not in table.resources)
        """Whether it requests something that no node ever had."""
        self.inexact = any(plain(name, amount) is None for name, amount in requests.items())
        """Whether integers are not enough for what it requests."""
        named = (table.resources.get(name) for name in requests)
        self._columns_named: Int64 = np.array([column for column in named if column is not None], np.int64)
        self._takes_any = requirements.affinity is not None

    def is_concerned(self, matchable: MatchableReservations, slots: Int64) -> Bool:
        """(k,) whether reservations hold anything that the pod requests, if that matters."""
        if self._takes_any:
            return np.ones(len(slots), np.bool_)
        columns = self._columns_named[self._columns_named < matchable.names.shape[1]]
        named: Bool = matchable.names.take(slots, axis=0).take(columns, axis=1)
        concerned: Bool = np.logical_or.reduce(named, axis=1)
        return concerned


class Shortage:
    """Of which resources too little is left for a pod, (k, m) by reservation and resource."""

    def __init__(
        self,
        request: "_Request",
        nodes: NodeSet,
        at: Int64,
        matchable: MatchableReservations,
        slots: Int64,
        first: Int64,
        group: Int64,
    ) -> None:
        columns, amounts = request.columns, request.amounts
        nothing: Bool = np.zeros((len(at), 0), np.bool_)
        self.names = request.names
        """(m) the resources."""
        self.on_node = self.on_node_alone = self.inside = nothing
        if not len(columns) or not len(at):
            return
        known = columns < matchable.held.shape[1]

        def cells(array: Int64, fill: int = 0) -> Int64:
            """(k, m) of an array (slots, resources), which may lack the latest columns."""
            of_slots: Int64 = array.take(slots, axis=0)
            if known.all():
                return of_slots.take(columns, axis=1)
            found = np.full((len(slots), len(columns)), fill, np.int64)
            found[:, known] = of_slots[:, columns[known]]
            return found

        def of_node(amounts: Int64) -> Int64:
            """(k, m) sums over all matched reservations of the same node."""
            total: Int64 = np.add.reduceat(amounts, first, axis=0)[group]
            return total

        seen = nodes.requested_of(columns).take(at, axis=0)
        requested = seen + of_node(cells(matchable.held))  # the view has taken matched reservations off
        allocated = of_node(cells(matchable.allocated))
        allocatable = nodes.table.allocatable.take(nodes.rows[at], axis=0).take(columns, axis=1)
        freed = allocated + cells(matchable.available)
        compared: Bool = ~(request.has_class & (allocatable == 0))
        self.on_node = compared & (amounts > left_on_node(allocatable, requested, freed))
        """On the node, with what is available in the reservation."""
        self.on_node_alone = compared & (amounts > left_on_node(allocatable, requested, allocated))
        """On the node, without any of the reservations."""
        self.inside = (amounts > cells(matchable.left, int(UNBOUNDED))) & (amounts > 0)
        """Inside the reservation."""


def scores(prepared: Prepared, matchable: MatchableReservations, slots: Int64, table: NodeTable) -> Int64:
    """(k,) how full the pod would make reservations, as `scoring.score`."""
    allocatable, wanted = matchable.allocatable[slots], matchable.allocated[slots]
    for name, amount in prepared.requirements.vector.items():
        column = table.resources.get(name)
        if column is not None and column < allocatable.shape[1] and name != PODS_NAME:
            wanted[:, column] += amount
    return scoring.scores(wanted, allocatable)
