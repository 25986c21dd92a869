"""What plugins tell the workload auditor: the life of gangs, and what happens to pods beside their attempts.

The auditor follows ordinary pods and attempts by itself; pods of gangs are in the record of their group,
which only the plugin that coordinates gangs can keep. Source: Koordinator's `WorkloadAuditor`
(`pkg/scheduler/frameworkext/workloadauditor`).
"""

from enum import StrEnum
from typing import Protocol

from koordpy.api.core import Pod


class RecordType(StrEnum):
    """What can happen to a workload."""

    CREATE = "create"
    GATED = "gatedByQueueAdmission"
    ADMITTED = "admissionPassed"
    SCHEDULED = "scheduled"
    PREEMPT_NOMINATED = "preemptNominated"
    VICTIM_DELETING = "preemptVictimDeleting"
    PREEMPT_FAILURE = "preemptFailure"
    SCHEDULE_FAILURE = "scheduleFailure"
    GANG_ATTEMPTED = "gangAllPodsAlreadyAttempted"
    VICTIMS_DELETED = "victimAllDeleted"
    GANG_SATISFIED = "gangMinMemberSatisfied"


class Auditor(Protocol):
    """Records of workloads: a pod, or a group of gangs by its ID. What is not recorded is no error."""

    @property
    def enabled(self) -> bool:
        """Whether anything is recorded: spares a plugin the work for what it would only tell the auditor."""
        ...

    def happened(self, pod: Pod, event: RecordType, message: str = "") -> None:
        """Note what happened to a pod that waits for a node; pods of gangs are left to the gang methods."""
        ...

    def gang_added(self, group: str, min_member: int) -> None:
        """Begin the record of a group, unless there is one. Every record is to be ended by its plugin."""
        ...

    def gang_deleted(self, group: str) -> None:
        """End the record of a group that is gone."""
        ...

    def gang_happened(self, group: str, pod: Pod | None, event: RecordType, message: str = "") -> None:
        """Note what happened to a group; `pod` is a member that tells the labels of the metrics."""
        ...

    def gang_gated(self, group: str, pod: Pod | None, gated: bool) -> None:
        """Note whether a group is held back by scheduling gates."""
        ...

    def gang_result(self, group: str, event: RecordType, message: str = "") -> None:
        """Note how an attempt of a whole group ended; SCHEDULED ends its record."""
        ...


class NoAuditor(Auditor):
    """Records nothing: the auditor is switched off."""

    @property
    def enabled(self) -> bool:
        """Return that nothing is recorded."""
        return False

    def happened(self, pod: Pod, event: RecordType, message: str = "") -> None:
        """Do nothing."""

    def gang_added(self, group: str, min_member: int) -> None:
        """Do nothing."""

    def gang_deleted(self, group: str) -> None:
        """Do nothing."""

    def gang_happened(self, group: str, pod: Pod | None, event: RecordType, message: str = "") -> None:
        """Do nothing."""

    def gang_gated(self, group: str, pod: Pod | None, gated: bool) -> None:
        """Do nothing."""

    def gang_result(self, group: str, event: RecordType, message: str = "") -> None:
        """Do nothing."""
