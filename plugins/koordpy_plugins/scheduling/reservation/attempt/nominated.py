"""The reservations that were nominated for a pod before scoring, at most one a node."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from koordpy.cluster.columns import Int64
from koordpy.scheduling.interface.reservation_info import ReservationInfo


def _none() -> Int64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class NominatedReservations:
    """`rows` (j,) of the node table, ascending, with the nominated reservations and their scores (j,)."""

    rows: Int64 = field(default_factory=_none)
    infos: Sequence[ReservationInfo] = ()
    scores: Int64 = field(default_factory=_none)
    preferred: int | None = None
    """The row of the node whose reservation goes before all others by its order."""

    def get(self, row: int) -> ReservationInfo | None:
        """Return what was nominated on a node."""
        if not self.infos:
            return None
        at = int(np.searchsorted(self.rows, row))
        return self.infos[at] if at < len(self.rows) and self.rows[at] == row else None
