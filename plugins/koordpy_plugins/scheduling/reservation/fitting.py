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
from koordpy.cluster.nodes import NodeSet

from .book import Book, Bool, Int64, plain
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
    considered: Bool
    """(k,) whether the reservation is about anything that the pod requests."""
    fits: Bool
    """(k, 2) whether node and reservation have enough."""
    unsure: Bool
    """(k,) whether that cannot be told here."""
    signature: Bool
    """(k, any) whatever a refusal's reasons depend on."""

    @property
    def passes(self) -> Bool:
        """(k,) whether the pod fits."""
        return self.considered & self.fits.all(axis=1)

    def any_of_node(self, flags: Bool) -> Bool:
        """(g,) whether a flag (k,) is set for any reservation of a node."""
        return np.logical_or.reduceat(flags, self.first) if len(self.first) else np.zeros(0, np.bool_)


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
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    sizes = np.diff(starts, append=len(at))
    group = np.repeat(np.arange(len(starts)), sizes)
    needs = prepared.wish.needs
    scalars = [name for name in needs if name not in _ALWAYS and name != PODS_NAME]
    looks = bool(scalars) or any(needs.get(name) for name in _ALWAYS)
    names = (*_ALWAYS, *(name for name in scalars if not ignores(name))) if looks else ()
    known = [name for name in names if name in table.resources]
    columns = [table.resource_column(name) for name in known]
    need = np.array([needs.get(name, 0) for name in known], np.int64)
    impossible = any(needs.get(name, 0) > 0 for name in names if name not in table.resources)
    width = book.held.shape[1]

    def of_book(array: Int64) -> Int64:
        cells = array[slots][:, [column for column in columns if column < width]]
        missing = len(columns) - cells.shape[1]
        return np.pad(cells, ((0, 0), (0, missing))) if missing else cells

    requested = np.stack([nodes.requested(column)[at] for column in columns], axis=1) if columns else None
    count = np.repeat(sizes, sizes)
    pods_short = nodes.requested(PODS)[at] - count + 1 > table.allocatable[nodes.rows[at], PODS]
    if requested is None:
        lacking = alone = np.zeros((len(at), 0), np.bool_)
    else:
        allocatable = table.allocatable[nodes.rows[at]][:, columns]
        given = of_book(book.allocated) - of_book(book.held)
        back = np.add.reduceat(given, starts, axis=0)[group] if len(starts) else given
        free = allocatable - requested + back
        lacking, alone = need > free + of_book(book.available), need > free
    on_node = ~(lacking.any(axis=1) | pods_short | impossible)
    on_node |= skips_node | (skips_node_alone & (count == 1))
    inside = np.ones(len(at), np.bool_)
    short = np.zeros((len(at), 0), np.bool_)
    if columns:
        room = of_book(book.room)
        room[:, [column >= width for column in columns]] = need.max(initial=0)
        short = (need > room) & (need > 0)
        inside = ~short.any(axis=1)
    full = book.room[slots, PODS] < 1
    inside &= ~full
    requested_columns = [
        column
        for name in prepared.wish.requests
        if (column := table.resources.get(name)) is not None and column < width
    ]
    named = book.named[slots][:, requested_columns].any(axis=1)
    considered = named if prepared.wish.affinity is None else np.ones(len(at), np.bool_)
    unsure = ~book.exact[slots]
    if any(plain(name, amount) is None for name, amount in prepared.wish.requests.items()):
        unsure = np.ones(len(at), np.bool_)
    for row in prepared.preemptible.rows(table):
        unsure |= nodes.rows[at] == row
    return Fitting(
        at,
        slots,
        chosen,
        starts,
        group,
        considered,
        np.stack((on_node, inside), axis=1),
        unsure,
        np.column_stack((lacking, alone, short, pods_short, full, considered, count == 1)),
    )


def scores(prepared: Prepared, book: Book, slots: Int64, resources_of: Callable[[str], int | None]) -> Int64:
    """Return (k,) how full the pod would make reservations, as `scoring.score`."""
    most = book.most[slots]
    wanted = book.allocated[slots]
    for name, amount in prepared.wish.needs.items():
        column = resources_of(name)
        if column is not None and column < most.shape[1] and column != PODS:
            wanted[:, column] += amount
    counts = (most != 0).sum(axis=1)
    parts = np.where((most != 0) & (wanted <= most), 100 * wanted // np.maximum(most, 1), 0)
    total: Int64 = parts.sum(axis=1) // np.maximum(counts, 1)
    return total
