"""The thresholds of eviction in NodeSLO."""

from typing import Final

BUFFER_PERCENT: Final = 2
"""How far below its threshold usage is to come, unless NodeSLO has a lower percentage."""


class InvalidThresholdError(ValueError):
    """A feature's thresholds in NodeSLO are missing or contradict each other."""


def used_percentages(name: str, threshold: int | None, lower: int | None) -> tuple[int, int]:
    """Return the percentage of usage at which eviction starts, and where it ends.

    `name` is that of the threshold, for messages. Raises InvalidThresholdError.
    """
    if threshold is None:
        raise InvalidThresholdError(f"{name} not config")
    if threshold < 0:
        raise InvalidThresholdError(f"threshold percent({threshold}) should equal or greater than 0")
    if lower is None:
        lower = threshold - BUFFER_PERCENT
    if lower >= threshold:
        raise InvalidThresholdError(f"lower percent({lower}) should less than threshold percent({threshold})")
    return threshold, lower


def priority_threshold(value: int | None) -> int:
    """Return the highest priority of pods that may be evicted for usage. Raises InvalidThresholdError."""
    if value is None:
        raise InvalidThresholdError("EvictEnabledPriorityThreshold not config")
    return value
