"""Limits of a workload's pods, as numbers or percentages of its replicas.

Source: Koordinator, `pkg/descheduler/controllers/migration/util/util.go` (`GetMaxUnavailable`).
"""

from koordpy.api import int_or_string


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
