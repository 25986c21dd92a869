"""Why jobs that have started do not go on: the failure of the last attempt of each, in this process.

A job's status has Koordinator's conditions, which do not tell that a PodDisruptionBudget refuses its
eviction, or that its Reservation was deleted.
"""

from typing import Final

LONGEST: Final = 500
"""Characters that are kept of a failure, as the API server's messages may contain what tenants wrote."""


class Obstacles:
    """Failures by the UIDs of jobs; whoever records them forgets those of jobs that are over."""

    def __init__(self) -> None:
        self._failures: dict[str, str] = {}

    def of(self, uid: str) -> str:
        """Return why the last attempt failed; empty if it did not."""
        return self._failures.get(uid, "")

    def failed(self, uid: str, failure: str) -> bool:
        """Record why an attempt failed; return whether the one before did not fail for the same reason."""
        failure = failure[:LONGEST]
        is_new = self._failures.get(uid) != failure
        self._failures[uid] = failure
        return is_new

    def forget(self, uid: str) -> None:
        """Forget the failure: an attempt did not fail, or the job is over."""
        self._failures.pop(uid, None)
