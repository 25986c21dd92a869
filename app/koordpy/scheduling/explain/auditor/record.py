"""The auditor's record of one workload."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How the life of a record ends."""

    SCHEDULED = "scheduled"
    DELETED = "deleted"
    GANG_SCHEDULED = "gangScheduled"
    GANG_DELETED = "gangDeleted"


@dataclass(slots=True)
class Record:
    """One workload: a pod, or a group of gangs. Times are monotonic seconds, None where there is none."""

    key: str
    labels: Sequence[str]
    """Values of the metrics' labels."""
    has_labels: bool = True
    """False until a member of the gang is known."""
    min_member: int = 0
    gated: bool = False
    attempts: int = 0
    last_recorded_attempt: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    nominated_at: float | None = None
    is_invalidated: bool = False
    retries: int = 0
    victims_deleted_at: float | None = None
    last_event_at: float | None = None
