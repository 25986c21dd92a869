"""Some nodes of the node table, the input of batch forms: arrays with a cell per node."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np

from koordpy.api import resources
from koordpy.api.core import Pod

from .columns import PODS, Bool, Int64
from .overlay import MovedPods, Overlay

if TYPE_CHECKING:
    from .nodes import NodeTable


class RowNames(Sequence[str]):
    """The names of rows of a table, looked up when the first one is asked for: often none is."""

    __slots__ = ("_known", "_rows", "_table")

    def __init__(self, table: "NodeTable", rows: Int64) -> None:
        self._table, self._rows = table, rows
        self._known: list[str] | None = None

    def _names(self) -> list[str]:
        if self._known is None:
            self._known = [self._table.name_of(row) for row in self._rows.tolist()]
        return self._known

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._names()[index]


@dataclass(frozen=True, slots=True)
class NodeSet:
    """Some nodes of a table, in the requested order."""

    table: "NodeTable"
    names: Sequence[str]
    rows: Int64
    """(n,) the rows of the names."""
    overlay: Overlay | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def index_of(self, name: str) -> int | None:
        """Return the position of a node, None if it is not in the set."""
        row = self.table.row_of(name)
        if row is not None:
            found = (self.rows == row).nonzero()[0]
            if len(found) and self.names[found[0]] == name:
                return int(found[0])
        try:
            return self.names.index(name)  # its row may have been released since
        except ValueError:
            return None

    def positions_of(self, names: Set[str]) -> dict[int, str]:
        """Return those of some names that are in the set, by position, ascending."""
        if len(names) > len(self):
            return {at: name for at, name in enumerate(self.names) if name in names}
        known = [(row, name) for name in names if (row := self.table.row_of(name)) is not None]
        if not known:
            return {}
        position = np.full(self.table.capacity, -1)
        position[self.rows] = np.arange(len(self))
        at = position[[row for row, _ in known]]
        order = np.argsort(at)
        places = zip(at[order].tolist(), order.tolist(), strict=True)
        return {place: known[which][1] for place, which in places if place >= 0}

    def subset(self, keep: Bool) -> "NodeSet":
        """Return the nodes where `keep` (n,) is true."""
        return self if keep.all() else self.pick(np.flatnonzero(keep))

    def pick(self, indexes: Int64) -> "NodeSet":
        """Return the nodes at these positions, in this order."""
        names, rows = self.names, self.rows[indexes]
        overlay = self.overlay
        if overlay is not None:
            overlay = overlay.pick(indexes)
        if isinstance(names, RowNames):
            return NodeSet(self.table, RowNames(self.table, rows), rows, overlay)
        return NodeSet(self.table, [names[i] for i in indexes.tolist()], rows, overlay)

    def by_row(self) -> "NodeSet":
        """Return the same nodes, whose names are looked up when they are needed."""
        return NodeSet(self.table, RowNames(self.table, self.rows), self.rows, self.overlay)

    @classmethod
    def of_rows(cls, table: "NodeTable", rows: Int64) -> "NodeSet":
        """Return the nodes of rows (n,), whose names are looked up when they are needed."""
        return cls(table, RowNames(table, rows), rows)

    def allocatable(self, column: int) -> Int64:
        """(n,) what the nodes offer of one resource."""
        values: Int64 = self.table.allocatable[:, column][self.rows]  # faster than with both at once
        return values

    def free(self) -> Int64:
        """(n, resources) the unrequested amounts; negative where more is requested than there is."""
        if self.overlay is not None:
            requested = self.overlay.requested
        else:
            requested = self.table.requested.take(self.rows, axis=0)
        free: Int64 = self.table.allocatable.take(self.rows, axis=0)[:, : requested.shape[1]] - requested
        return free

    def requested(self, column: int) -> Int64:
        """(n,) what the pods on the nodes request of one resource."""
        if self.overlay is not None:
            known = self.overlay.requested
            return known[:, column] if column < known.shape[1] else np.zeros(len(self), np.int64)
        values: Int64 = self.table.requested[:, column][self.rows]
        return values

    def requested_of(self, columns: Int64) -> Int64:
        """(n, columns) what the pods on the nodes request of some resources."""
        overlay = self.overlay
        if overlay is None:
            return self.table.requested.take(columns, axis=1).take(self.rows, axis=0)
        known = overlay.requested
        if (columns < known.shape[1]).all():
            return known.take(columns, axis=1)
        return np.column_stack([self.requested(column) for column in columns.tolist()])

    def nonzero_requested(self, column: int) -> Int64:
        """(n,) the same for cpu (0) and memory (1), with defaults for containers without requests."""
        if self.overlay is not None:
            return self.overlay.nonzero_requested[:, column]
        values: Int64 = self.table.nonzero_requested[:, column][self.rows]
        return values

    def pods_on(self, row: int) -> Iterable[Pod]:
        """Return the pods on a node of the set, by its row."""
        if self.overlay is not None:
            changed = self.overlay.pods.get(row)
            if changed is not None:
                return changed
        return self.table.pods_on(row)

    def with_pods(self, more: Mapping[str, Sequence[Pod]]) -> "NodeSet":
        """Return the same nodes as they would be with more pods on them, given by node name."""
        table, rows = self.table, self.rows
        base = self.overlay
        shares = {
            name: [
                (resources.pod_node_request_vector(pod), resources.pod_nonzero_request(pod)) for pod in pods
            ]
            for name, pods in more.items()
        }
        for pods in shares.values():
            for amounts, _ in pods:
                for resource in amounts:
                    table.resource_column(resource)
        requested = table.requested[rows]
        if base is not None:
            requested[:, : base.requested.shape[1]] = base.requested
        nonzero = table.nonzero_requested[rows] if base is None else base.nonzero_requested.copy()
        changed = MovedPods(table.pods_on, base.pods if base is not None else None)
        for index, (name, row) in enumerate(zip(self.names, rows.tolist(), strict=True)):
            if name not in more:
                continue
            for amounts, (cpu, memory) in shares[name]:
                columns = [table.resource_column(resource) for resource in amounts]
                requested[index, columns] += np.fromiter(amounts.values(), np.int64, len(amounts))
                requested[index, PODS] += 1
                nonzero[index] += (cpu, memory)
            changed.add(row, more[name])
        return replace(self, overlay=Overlay(requested, nonzero, changed))
