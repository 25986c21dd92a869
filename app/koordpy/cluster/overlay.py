"""One attempt's view of nodes where it differs from the node table. No other attempt sees it."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from koordpy.api.core import Pod

from .columns import Int64


class Move(NamedTuple):
    """A pod that an attempt sees on a row where the table does not have it, or the reverse."""

    row: int
    pod: Pod
    sign: int
    """1 for a pod that was added, -1 for one that was removed."""


class VisiblePods(Mapping[int, Sequence[Pod]]):
    """The pods of nodes as an attempt sees them, by row; only of nodes where these are not the table's."""

    @abstractmethod
    def moves(self) -> Iterator[Move]:
        """Yield the differences to the table and its hidden pods."""

    @property
    @abstractmethod
    def has_more(self) -> bool:
        """Whether any pod was added that is neither in the table nor among its hidden pods."""


class MovedPods(VisiblePods):
    """The pods of nodes with added or removed pods.

    `pods_on` returns those of a row of the table, `base` what the attempt saw before.
    """

    def __init__(self, pods_on: Callable[[int], Iterable[Pod]], base: VisiblePods | None = None) -> None:
        self._pods_on = pods_on
        self._lists: dict[int, list[Pod]] = {}
        self._own: set[int] = set()
        """The rows whose lists are not shared with `base`."""
        self._moves: list[Move] = []
        if isinstance(base, MovedPods):  # what-ifs place one pod after the other
            self._lists.update(base._lists)
            self._moves.extend(base._moves)
            base = base._base
        self._base: VisiblePods | None = base

    def __getitem__(self, row: int) -> Sequence[Pod]:
        known = self._lists.get(row)
        if known is not None:
            return known
        if self._base is None:
            raise KeyError(row)
        return self._base[row]

    def __contains__(self, row: object) -> bool:
        return row in self._lists or (self._base is not None and row in self._base)

    def __iter__(self) -> Iterator[int]:
        return iter({**self._lists, **dict.fromkeys(self._base or ())})

    def __len__(self) -> int:
        return len(self._lists) if self._base is None else len({**self._lists, **dict.fromkeys(self._base)})

    def take(self, row: int, pods: Sequence[Pod]) -> None:
        """Remove pods; they must be there."""
        gone = {pod.metadata.uid for pod in pods}
        pods_left = self._list(row)
        pods_left[:] = [pod for pod in pods_left if pod.metadata.uid not in gone]
        self._moves.extend(Move(row, pod, -1) for pod in pods)

    def add(self, row: int, pods: Sequence[Pod]) -> None:
        """Add pods."""
        self._list(row).extend(pods)
        self._moves.extend(Move(row, pod, 1) for pod in pods)

    def _list(self, row: int) -> list[Pod]:
        """Return the list of a row, to be changed."""
        if row in self._own:
            return self._lists[row]
        seen = self.get(row)
        own = self._lists[row] = list(self._pods_on(row) if seen is None else seen)
        self._own.add(row)
        return own

    def moves(self) -> Iterator[Move]:
        """Yield the moves in order; a pod that was removed and added again occurs twice."""
        if self._base is not None:
            yield from self._base.moves()
        yield from self._moves

    @property
    def has_more(self) -> bool:
        """Whether any pod was added."""
        return (self._base is not None and self._base.has_more) or any(m.sign > 0 for m in self._moves)


Amounts = tuple[Int64, Int64]
"""(n, resources) what is requested of nodes, (n, 2) the same in milli-CPU and bytes with defaults."""


class Overlay:
    """What a NodeSet of n nodes shows in place of the table."""

    __slots__ = ("_amounts", "_make", "pods")

    def __init__(self, requested: Int64, nonzero_requested: Int64, pods: VisiblePods) -> None:
        """Use (n, resources) and (n, 2) amounts, which may keep changing with the pods."""
        self._amounts: Amounts | None = (requested, nonzero_requested)
        self._make: Callable[[], Amounts] | None = None
        self.pods = pods

    @classmethod
    def on_demand(cls, make: Callable[[], Amounts], pods: VisiblePods) -> "Overlay":
        """Return an overlay whose amounts are computed on first use."""
        overlay = cls.__new__(cls)
        overlay._amounts, overlay._make, overlay.pods = None, make, pods
        return overlay

    def _read(self) -> Amounts:
        if self._amounts is None:
            assert self._make is not None
            self._amounts, self._make = self._make(), None
        return self._amounts

    @property
    def requested(self) -> Int64:
        """(n, resources) what the visible pods request."""
        return self._read()[0]

    @property
    def nonzero_requested(self) -> Int64:
        """(n, 2) milli-CPU and bytes, with defaults for containers without requests."""
        return self._read()[1]

    def pick(self, indexes: Int64) -> "Overlay":
        """Return the same of the nodes at these positions."""
        if self._amounts is not None:
            requested, nonzero = self._amounts
            return Overlay(requested[indexes], nonzero[indexes], self.pods)

        def picked() -> Amounts:
            requested, nonzero = self._read()
            return requested[indexes], nonzero[indexes]

        return Overlay.on_demand(picked, self.pods)
