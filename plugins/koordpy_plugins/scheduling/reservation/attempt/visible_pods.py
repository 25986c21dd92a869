"""The pods of nodes as an attempt sees them: with the reserve pods of reservations that are not for it."""

from collections.abc import Iterator, Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeTable

from ..state.cache import ReservationCache
from ..state.withheld import Withheld
from .matches import Matches


class VisiblePods(Mapping[int, Sequence[Pod]]):
    """Pods by row of the node table, of the nodes where reservations or `base` make a difference.

    What is matched is left out: reserve pods, pods that act as reservations, pods that are taken over. Lists
    are made on demand.
    """

    def __init__(
        self,
        table: NodeTable,
        cache: ReservationCache,
        withheld: Withheld,
        base: Mapping[int, Sequence[Pod]],
        matches: Matches,
    ) -> None:
        self._table, self._cache, self._withheld = table, cache, withheld
        self._base, self._matches = base, matches
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
        pods = list(self._base.get(row) or ()) if row in self._base else list(self._table.pods_on(row))
        infos = self._cache.on_node.get(self._table.name_of(row), {})
        pods.extend(info.pod for info in infos.values() if self._cache.occupies(info))
        match = self._matches.get(row)
        if match is None:
            return pods
        gone = {info.uid for info in match.matched} | {pod.metadata.uid for pod in match.candidates}
        return [pod for pod in pods if pod.metadata.uid not in gone]

    def _all(self) -> dict[int, None]:
        if self._rows is None:
            rows = (*self._base, *self._withheld.occupied.tolist(), *self._matches)
            self._rows = dict.fromkeys(rows)
        return self._rows

    def __contains__(self, row: object) -> bool:
        return row in self._all()

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
