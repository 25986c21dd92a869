"""The reservations that were chosen for a pod before scoring, at most one a node."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .book import Int64


def _none() -> Int64:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Ballot:
    """`rows` (j,) of the node table, ascending, with the chosen reservations and their scores (j,)."""

    rows: Int64 = field(default_factory=_none)
    infos: Sequence[ReservationInfo] = ()
    scores: Int64 = field(default_factory=_none)
    preferred: int | None = None
    """The row of the node whose reservation goes before all others."""

    def get(self, row: int) -> ReservationInfo | None:
        """Return what was chosen on a node."""
        at = int(np.searchsorted(self.rows, row))
        return self.infos[at] if at < len(self.rows) and self.rows[at] == row else None
