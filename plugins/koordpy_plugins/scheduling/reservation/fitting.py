"""Which of the reservations that are for a pod it fits into, all of them at once.

The arithmetic is that of `judge`, on the arrays of the book. Where integers are not enough, or where pods are
moved in thought, a reservation is *unsure* and `judge` has to look at its node.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from koordpy.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from koordpy.api.resource_names import PODS as PODS_NAME
from koordpy.cluster.columns import PODS
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.lib import runs

from . import scoring
from .book import PLENTY, Book, Bool, Int64, plain
from .prepared import Prepared

_ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True)
class Fitting:
    """The k matched reservations on the nodes of a set, by node."""

    at: Int64
    """(k,) the index of the node in the set."""
    slots: Int64
    """(k,) slots of the book."""
    chosen: Int64
    """(k,) indexes into what was matched."""
    first: Int64
    """(g,) where each node begins."""
    group: Int64
    """(k,) which node it is."""
    passes: Bool
    """(k,) whether the pod fits."""
    unsure: Bool
    """(k,) whether that cannot be told here."""
    signature: Bool
    """(k, any) whatever a refusal's reasons depend on, where a node has one matched reservation."""

    @property
    def sizes(self) -> Int64:
        """(g,) how many matched reservations each node has."""
        return runs.sizes(self.first, len(self.at))

    def any_of_node(self, flags: Bool) -> Bool:
        """(g,) whether a flag (k,) is set for any reservation of a node."""
        if not len(self.first):
            return np.zeros(0, np.bool_)
        of_nodes: Bool = np.logical_or.reduceat(flags, self.first)
        return of_nodes


def fit(
    prepared: Prepared,
    nodes: NodeSet,
    book: Book,
    ignores: Callable[[str], bool],
    *,
    skips_node_alone: bool,
    skips_node: bool,
) -> Fitting:
    """Look at all matched reservations on the nodes of a set, which must be shown to the attempt.

    The node is not looked at with `skips_node`, or where it has one matched reservation, `skips_node_alone`.
    """
    matches, table = prepared.matches, nodes.table
    places = np.full(table.capacity, -1, np.int64)
    places[nodes.rows] = np.arange(len(nodes))
    at = places[matches.rows]
    chosen = np.flatnonzero((at >= 0) & matches.current)
    at, slots = at[chosen], matches.slots[chosen]
    first = runs.starts(at)
    sizes = runs.sizes(first, len(at))
    group = np.repeat(np.arange(len(first)), sizes)
    count = np.repeat(sizes, sizes)
    rows = nodes.rows[at]

    needs = _Needs(prepared, table, ignores)
    room = _Room(needs, nodes, at, book, slots, first, group)
    crowded = nodes.requested(PODS)[at] - count + 1 > table.allocatable[rows, PODS]
    on_node: Bool = ~(room.lacking.any(axis=1) | crowded | needs.impossible)
    if skips_node:
        on_node[:] = True
    elif skips_node_alone:
        on_node |= count == 1
    full = book.room[slots, PODS] < 1
    inside = ~(room.short.any(axis=1) | full)
    considered = needs.concern(book, slots)
    unsure = _unsure(prepared, needs, nodes, book, slots, rows)
    return Fitting(
        at,
        slots,
        chosen,
        first,
        group,
        considered & on_node & inside,
        unsure,
        np.column_stack((room.lacking, room.lacking_alone, room.short, crowded, full, considered)),
    )


def _unsure(
    prepared: Prepared, needs: "_Needs", nodes: NodeSet, book: Book, slots: Int64, rows: Int64
) -> Bool:
    """(k,) where integers are not enough, or pods were moved or placed in thought."""
    unsure: Bool = np.ones(len(slots), np.bool_) if needs.inexact else ~book.exact[slots]
    moved = [*prepared.preemptible.rows(nodes.table), *prepared.matches.imagined.rows]
    if not moved:
        return unsure
    of_moved: Bool = np.asarray(np.isin(rows, moved), np.bool_)
    return unsure | of_moved


class _Needs:
    """What a pod needs, by column of the node table."""

    def __init__(self, prepared: Prepared, table: NodeTable, ignores: Callable[[str], bool]) -> None:
        wish = prepared.wish
        scalars = [name for name in wish.needs if name not in _ALWAYS and name != PODS_NAME]
        looks = bool(scalars) or any(wish.needs.get(name) for name in _ALWAYS)
        names = (*_ALWAYS, *(name for name in scalars if not ignores(name))) if looks else ()
        known = [name for name in names if name in table.resources]
        self.columns = [table.resource_column(name) for name in known]
        """Of the resources that are looked at."""
        self.amounts: Int64 = np.array([wish.needs.get(name, 0) for name in known], np.int64)
        """How much of them the pod needs."""
        self.impossible = any(wish.needs.get(name, 0) > 0 for name in names if name not in table.resources)
        """Whether it needs something that no node ever had."""
        self.inexact = any(plain(name, amount) is None for name, amount in wish.requests.items())
        """Whether integers are not enough for what it requests."""
        self._named = [column for name in wish.requests if (column := table.resources.get(name)) is not None]
        self._takes_any = wish.affinity is not None

    def concern(self, book: Book, slots: Int64) -> Bool:
        """(k,) whether reservations are about anything that the pod requests, if that matters."""
        if self._takes_any:
            return np.ones(len(slots), np.bool_)
        width = book.named.shape[1]
        of_slots: Bool = book.named[slots][:, [column for column in self._named if column < width]]
        concerned: Bool = np.logical_or.reduce(of_slots, axis=1)
        return concerned


class _Room:
    """What is lacking for a pod, by reservation (k) and column (m) that is looked at."""

    def __init__(
        self,
        needs: _Needs,
        nodes: NodeSet,
        at: Int64,
        book: Book,
        slots: Int64,
        first: Int64,
        group: Int64,
    ) -> None:
        columns, amounts = needs.columns, needs.amounts
        nothing: Bool = np.zeros((len(at), 0), np.bool_)
        self.lacking = self.lacking_alone = self.short = nothing
        if not columns or not len(at):
            return
        width = book.held.shape[1]
        known = [column for column in columns if column < width]

        def of_book(array: Int64, fill: int = 0) -> Int64:
            cells: Int64 = array[slots][:, known]
            missing = len(columns) - len(known)
            return np.pad(cells, ((0, 0), (0, missing)), constant_values=fill) if missing else cells

        requested = np.stack([nodes.requested(column)[at] for column in columns], axis=1)
        back = of_book(book.allocated) - of_book(book.held)
        back = np.add.reduceat(back, first, axis=0)[group]
        free = nodes.table.allocatable[nodes.rows[at]][:, columns] - requested + back
        self.lacking = amounts > free + of_book(book.available)
        """On the node, with what the reservation adds."""
        self.lacking_alone = amounts > free
        """On the node without it."""
        self.short = (amounts > of_book(book.room, int(PLENTY))) & (amounts > 0)
        """Inside the reservation."""


def scores(prepared: Prepared, book: Book, slots: Int64, table: NodeTable) -> Int64:
    """Return (k,) how full the pod would make reservations, as `scoring.score`."""
    most, wanted = book.most[slots], book.allocated[slots]
    for name, amount in prepared.wish.needs.items():
        column = table.resources.get(name)
        if column is not None and column < most.shape[1] and column != PODS:
            wanted[:, column] += amount
    counts = (most != 0).sum(axis=1)
    parts = np.where((most != 0) & (wanted <= most), scoring.MOST * wanted // np.maximum(most, 1), 0)
    total: Int64 = parts.sum(axis=1) // np.maximum(counts, 1)
    return total
