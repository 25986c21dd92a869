"""Verdicts of other plugins on pairs of a pod and a reservation: on many at once, on each pair once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Pod
from koordpy.cluster.columns import Bool, Int64
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict

Run = Callable[[ReservationPairs], Verdict]

_UNKNOWN = -1


class OtherPlugins:
    """Verdicts of an extension point on pairs (k,), which `pairs` makes on demand.

    `run` runs the point; None where no plugin has it: then all pairs are accepted.
    """

    def __init__(self, run: Run | None, pairs: Callable[[], ReservationPairs]) -> None:
        self._run, self._make = run, pairs
        self._made: ReservationPairs | None = None
        self._positions: dict[tuple[int, str, str], int] | None = None
        self._answers: Int64 = np.zeros(0, np.int64)
        """(k,) positions in `_statuses`, or _UNKNOWN."""
        self._statuses: dict[Status, int] = {SUCCESS: 0}

    def accept(self, which: Bool) -> Bool:
        """(k,) those of `which` (k,) that no plugin refuses."""
        if self._run is None or not which.any():
            return which
        self.ask_about(which)
        accepted: Bool = which & (self._answers == 0)
        return accepted

    def ask_about(self, which: Bool) -> None:
        """Run the point for all of `which` (k,) together, rather than for one pair after the other."""
        if self._run is None or not which.any():
            return
        pairs = self._pairs()
        new = np.flatnonzero(which & (self._answers == _UNKNOWN))
        if not len(new):
            return
        verdict = self._run(pairs if len(new) == len(pairs) else pairs.pick(new))
        self._answers[new] = 0
        if verdict.codes is None:
            return
        refused = np.flatnonzero(verdict.codes)
        keys = np.zeros(len(refused), np.int64) if verdict.keys is None else verdict.keys[refused]
        # One Status for all refusals with the same code and reasons.
        kinds = np.stack((verdict.codes[refused], keys), axis=1)
        _, firsts, groups = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
        statuses = map(verdict.status, refused[firsts].tolist())
        answers = [self._statuses.setdefault(status, len(self._statuses)) for status in statuses]
        self._answers[new[refused]] = np.array(answers, np.int64)[groups.reshape(-1)]

    def marks(self, positions: Int64) -> NDArray[np.integer]:
        """(g, any) numbers that are equal where the answers about the pairs at these positions are."""
        if not len(self._answers):
            return np.zeros((len(positions), 0), np.uint8)
        return self._answers[positions, None]

    def status(self, index: int, pod: Pod, reservation: ReservationInfo) -> Status:
        """Return the answer about one pair on the node at an index."""
        if self._run is None:
            return SUCCESS
        pairs = self._pairs()
        if self._positions is None:
            of_pairs = zip(pairs.at.tolist(), pairs.pods, pairs.reservations, strict=True)
            self._positions = {
                (at, one.metadata.uid, info.uid): place for place, (at, one, info) in enumerate(of_pairs)
            }
        position = self._positions.get((index, pod.metadata.uid, reservation.uid))
        if position is None:  # it has come or changed meanwhile
            return self._run(ReservationPairs(pairs.nodes, np.array([index]), [pod], [reservation])).status(0)
        if self._answers[position] == _UNKNOWN:
            self.ask_about(self._answers == _UNKNOWN)
        return list(self._statuses)[int(self._answers[position])]

    def _pairs(self) -> ReservationPairs:
        if self._made is None:
            self._made = self._make()
            self._answers = np.full(len(self._made), _UNKNOWN, np.int64)
        return self._made
