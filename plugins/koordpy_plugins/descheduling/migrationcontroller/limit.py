"""Limits of a workload's pods, as numbers or percentages of its replicas.

Source: Koordinator, `pkg/descheduler/controllers/migration/util/util.go` (`GetMaxUnavailable`).
"""

from typing import Final

from koordpy.api import int_or_string

_KEPT: Final = 1024


class WorkloadLimit:
    """The limit for each number of replicas; see `limit_of`."""

    def __init__(self, value: int | str | None) -> None:
        self._value = value
        self._limits: dict[int, int] = {}

    def __call__(self, replicas: int) -> int:
        """Return the limit. Raises ValueError for text that is not a percentage."""
        known = self._limits.get(replicas)
        if known is None:
            if len(self._limits) >= _KEPT:
                self._limits.clear()
            known = self._limits[replicas] = limit_of(replicas, self._value)
        return known


def limit_of(replicas: int, value: int | str | None) -> int:
    """Return how many pods of a workload may be affected at a time, at most its replicas.

    A percentage is rounded down, and 0 means 1. Without a value it is 10 % of more than 10 replicas, 2 of 4
    to 10, else 1. Negative numbers stay as they are. Raises ValueError for text that is not a percentage.
    """
    found = 0
    if value is not None:
        found = int_or_string.scaled(value, replicas, round_up=False) or 1
    if found == 0:
        found = replicas * 10 // 100 if replicas > 10 else 2 if replicas >= 4 else 1
    return min(found, replicas)
