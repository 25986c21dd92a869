"""The age of pods and conditions, as Go computes it: an absent time is as long ago as durations can say."""

from datetime import datetime
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.meta import parse_time

LONGEST: Final = (1 << 63) / 1e9
"""Seconds in the longest duration, some 292 years."""


def created(pod: Pod) -> float:
    """Return when a pod was created, in seconds since 1970; minus infinity if that is unknown."""
    text = pod.metadata.creation_timestamp
    return parse_time(text).timestamp() if text else float("-inf")


def seconds(pod: Pod, now: datetime) -> float:
    """Return the age of a pod in seconds, negative for one from the future."""
    text = pod.metadata.creation_timestamp
    return since(text, now) if text else LONGEST


def since(text: str, now: datetime) -> float:
    """Return the seconds since a time of an object."""
    return max(-LONGEST, min(LONGEST, (now - parse_time(text)).total_seconds()))
