"""The pods of nodes as an attempt sees them: with the reserve pods of reservations that are not for it."""

from collections.abc import Iterator, Sequence

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeTable
from koordpy.cluster.overlay import Move, VisiblePods

from .matches import Matches


class PodsWithReservations(VisiblePods):
    """Pods by row of the node table, of the nodes where hidden pods, matches or `base` make a difference.

    What is matched is left out: reserve pods, pods that act as reservations, pods that are taken over. Lists
    are made on demand.
    """

    def __init__(self, table: NodeTable, base: VisiblePods | None, matches: Matches) -> None:
        self._table, self._base, self._matches = table, base, matches
        self._rows: dict[int, None] | None = None
        self._known: dict[int, Sequence[Pod]] = {}

    def __getitem__(self, row: int) -> Sequence[Pod]:
        pods = self._known.get(row)
        if pods is None:
            if row not in self:
                raise KeyError(row)
            pods = self._known[row] = self._pods(row)
        return pods

    def _pods(self, row: int) -> Sequence[Pod]:
        seen = None if self._base is None else self._base.get(row)
        pods = [*(self._table.pods_on(row) if seen is None else seen), *self._table.hidden.on(row)]
        match = self._matches.get(row)
        if match is None:
            return pods
        gone = {info.uid for info in match.matched} | {pod.metadata.uid for pod in match.candidates}
        return [pod for pod in pods if pod.metadata.uid not in gone]

    def _all(self) -> dict[int, None]:
        if self._rows is None:
            self._rows = dict.fromkeys((*(self._base or ()), *self._table.hidden.rows(), *self._matches))
        return self._rows

    def __contains__(self, row: object) -> bool:
        return row in self._all()

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def moves(self) -> Iterator[Move]:
        """Yield the pods that are left out, and what moved before."""
        if self._base is not None:
            yield from self._base.moves()
        table, matches = self._table, self._matches
        for row, info in zip(matches.rows.tolist(), matches.infos, strict=True):
            if info.uid in table.hidden or table.placed_on(info.uid) is not None:
                yield Move(row, info.pod, -1)
        for row, match in matches.candidates.items():
            for pod in match.candidates:
                yield Move(row, pod, -1)

    @property
    def has_more(self) -> bool:
        """Whether any pod was added before."""
        return self._base is not None and self._base.has_more
