"""The NUMA affinities that an attempt has chosen, by node: one by one, or of many nodes at once."""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.int64 import wrap
from koordpy.scheduling.interface import NUMATopologyHint

ANY: Final = -1
"""In arrays of masks: no NUMA nodes in particular."""


class AffinityStore(MutableMapping[str, NUMATopologyHint]):
    """The affinity of each node, by node name.

    Those of many nodes are kept as arrays, of which hints are made when they are asked for.
    """

    __slots__ = ("_batch", "_single")

    def __init__(self) -> None:
        self._single: dict[str, NUMATopologyHint | None] = {}
        """None for what is no longer in the batch."""
        self._batch: _Batch | None = None

    def put_all(self, nodes: NodeSet, masks: Int64, scores: Int64) -> None:
        """Store preferred hints of nodes; the masks (n,) may be `ANY`."""
        if self._batch is not None:
            self._single = {**dict(self._batch.items()), **self._single}
        if self._single:
            for name in nodes.names:
                self._single.pop(name, None)
        self._batch = _Batch(nodes, masks, scores)

    def masks(self, nodes: NodeSet) -> tuple[Bool, Int64]:
        """Return (n,) which nodes have an affinity, and the masks, `ANY` also for nodes without one.

        NUMA node 63 is the sign.
        """
        if self._batch is None:
            known, masks = np.zeros(len(nodes), np.bool_), np.full(len(nodes), ANY)
        else:
            known, masks = self._batch.masks_of(nodes)
        if self._single:
            for at, name in enumerate(nodes.names):
                if name in self._single:
                    hint = self._single[name]
                    known[at] = hint is not None
                    masks[at] = ANY if hint is None or hint.affinity is None else wrap(hint.affinity)
        return known, masks

    def _find(self, name: str) -> NUMATopologyHint | None:
        if name in self._single or self._batch is None:
            return self._single.get(name)
        return self._batch.find(name)

    def __getitem__(self, name: str) -> NUMATopologyHint:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, hint: NUMATopologyHint) -> None:
        self._single[name] = hint

    def __delitem__(self, name: str) -> None:
        if self._find(name) is None:
            raise KeyError(name)
        self._single[name] = None

    def __iter__(self) -> Iterator[str]:
        for name, hint in self._single.items():
            if hint is not None:
                yield name
        if self._batch is not None:
            yield from (name for name in self._batch.nodes.names if name not in self._single)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return self._batch is not None or any(hint is not None for hint in self._single.values())


@dataclass(slots=True)
class _Batch:
    """The hints of some nodes as arrays (n,)."""

    nodes: NodeSet
    masks: Int64
    scores: Int64
    _positions: Int64 = field(init=False)
    """By row of the node table, -1 for other rows."""
    _generation: Int64 = field(init=False)

    def __post_init__(self) -> None:
        table, rows = self.nodes.table, self.nodes.rows
        self._positions = np.full(table.capacity, -1)
        self._positions[rows] = np.arange(len(rows))
        self._generation = table.generation[rows]

    def find(self, name: str) -> NUMATopologyHint | None:
        """Return the hint of a node."""
        row = self.nodes.table.row_of(name)
        at = -1 if row is None or row >= len(self._positions) else int(self._positions[row])
        if at < 0 or not self._is_of(at, name):
            return None
        return self._hint(at)

    def masks_of(self, nodes: NodeSet) -> tuple[Bool, Int64]:
        """Return (n,) which nodes have a hint, and the masks."""
        rows = nodes.rows
        inside = rows < len(self._positions)
        at = np.where(inside, self._positions.take(rows, mode="clip"), -1)
        known = at >= 0
        changed = known & (self._generation[at] != nodes.table.generation[rows])
        for index in np.flatnonzero(changed).tolist():
            known[index] = self._is_of(int(at[index]), nodes.names[index])
        return known, np.where(known, self.masks[at], ANY)

    def items(self) -> Iterator[tuple[str, NUMATopologyHint]]:
        """Yield the names of nodes with their hints."""
        return ((name, self._hint(at)) for at, name in enumerate(self.nodes.names))

    def _is_of(self, at: int, name: str) -> bool:
        """Return whether a row still has the node that it had: another one has another generation."""
        row = int(self.nodes.rows[at])
        return bool(self.nodes.table.generation[row] == self._generation[at]) or self.nodes.names[at] == name

    def _hint(self, at: int) -> NUMATopologyHint:
        mask = int(self.masks[at])
        affinity = None if mask == ANY else mask
        return NUMATopologyHint(affinity, preferred=True, score=int(self.scores[at]))
