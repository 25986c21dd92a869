"""What other plugins say about pairs of a pod and a reservation: asked about many at once, each once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Pod
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict

from .book import Bool, Int64

Ask = Callable[[ReservationPairs], Verdict]

_UNKNOWN = -1


class Others:
    """Answers about pairs (k,), which `pairs` makes when the first is wanted; with `ask` None all agree."""

    def __init__(self, ask: Ask | None, pairs: Callable[[], ReservationPairs]) -> None:
        self._ask, self._make = ask, pairs
        self._made: ReservationPairs | None = None
        self._positions: dict[tuple[int, str, str], int] | None = None
        self._answers: Int64 = np.zeros(0, np.int64)
        """(k,) indexes into what was said."""
        self._said: dict[Status, int] = {SUCCESS: 0}

    def agree(self, which: Bool) -> Bool:
        """(k,) those of `which` (k,) that nobody is against."""
        if self._ask is None or not which.any():
            return which
        self.hear(which)
        agreed: Bool = which & (self._answers == 0)
        return agreed

    def hear(self, which: Bool) -> None:
        """Ask about all of `which` (k,) together, so that nobody is asked about one of them alone."""
        if self._ask is None or not which.any():
            return
        pairs = self._pairs()
        new = np.flatnonzero(which & (self._answers == _UNKNOWN))
        if not len(new):
            return
        verdict = self._ask(pairs if len(new) == len(pairs) else pairs.pick(new))
        self._answers[new] = 0
        if verdict.codes is None:
            return
        refused = np.flatnonzero(verdict.codes)
        keys = np.zeros(len(refused), np.int64) if verdict.keys is None else verdict.keys[refused]
        kinds = np.stack((verdict.codes[refused], keys), axis=1)
        _, firsts, groups = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        statuses = map(verdict.status, refused[firsts].tolist())
        answers = [self._said.setdefault(status, len(self._said)) for status in statuses]
        self._answers[new[refused]] = np.array(answers, np.int64)[groups.reshape(-1)]

    def marks(self, positions: Int64) -> NDArray[np.integer]:
        """(g, any) numbers that are equal where the same was said about the pairs at these positions."""
        if not len(self._answers):
            return np.zeros((len(positions), 0), np.uint8)
        return self._answers[positions, None]

    def status(self, index: int, pod: Pod, reservation: ReservationInfo) -> Status:
        """Return what is said about one pair on the node at an index."""
        if self._ask is None:
            return SUCCESS
        pairs = self._pairs()
        if self._positions is None:
            of_pairs = zip(pairs.at.tolist(), pairs.pods, pairs.reservations, strict=True)
            self._positions = {
                (at, one.metadata.uid, info.uid): place for place, (at, one, info) in enumerate(of_pairs)
            }
        position = self._positions.get((index, pod.metadata.uid, reservation.uid))
        if position is None:  # it has come or changed meanwhile
            return self._ask(ReservationPairs(pairs.nodes, np.array([index]), [pod], [reservation])).status(0)
        if self._answers[position] == _UNKNOWN:
            self.hear(self._answers == _UNKNOWN)
        return list(self._said)[int(self._answers[position])]

    def _pairs(self) -> ReservationPairs:
        if self._made is None:
            self._made = self._make()
            self._answers = np.full(len(self._made), _UNKNOWN, np.int64)
        return self._made
