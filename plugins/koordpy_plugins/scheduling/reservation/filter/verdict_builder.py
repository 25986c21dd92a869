"""A verdict on many nodes, put together piece by piece."""

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.scheduling.interface.status import PASS, Status, Verdict


class VerdictBuilder:
    """Statuses of n nodes, Success to begin with; the latest status of a node counts."""

    def __init__(self, count: int) -> None:
        self._codes = np.zeros(count, np.int8)
        self._keys = np.zeros(count, np.int64)
        self._reasons: dict[tuple[str, ...], int] = {}

    def set(self, index: int, status: Status) -> None:
        """Give one node a status."""
        self._codes[index] = status.code
        self._keys[index] = self._reasons.setdefault(status.reasons, len(self._reasons))

    def set_where(self, which: Bool, status: Status) -> None:
        """Give the nodes where `which` (n,) is true a status."""
        self.set_at(np.flatnonzero(which), status)

    def set_at(self, indexes: Int64, status: Status) -> None:
        """Give the nodes at some indexes a status."""
        if len(indexes):
            self._codes[indexes] = status.code
            self._keys[indexes] = self._reasons.setdefault(status.reasons, len(self._reasons))

    def verdict(self) -> Verdict:
        """Return the verdict."""
        return Verdict.keyed(self._codes, self._keys, list(self._reasons)) if self._codes.any() else PASS
