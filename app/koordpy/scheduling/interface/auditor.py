"""What plugins report to the workload auditor: the lifecycle of gangs, and events of pods besides attempts.

The auditor follows ordinary pods and attempts itself; pods of gangs are in the record of their group,
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
    """Records of workloads: a pod, or a group of gangs by its ID. Unknown workloads are ignored."""

    @property
    def enabled(self) -> bool:
        """Whether anything is recorded, so that a plugin can skip work that is only for the auditor."""
        ...

    def happened(self, pod: Pod, event: RecordType, message: str = "") -> None:
        """Record what happened to a pod that waits for a node; for pods of gangs use the gang methods."""
        ...

    def gang_added(self, group: str, min_member: int) -> None:
        """Start the record of a group, unless there is one. The plugin must end every record."""
        ...

    def gang_deleted(self, group: str) -> None:
        """End the record of a group that is gone."""
        ...

    def gang_happened(self, group: str, pod: Pod | None, event: RecordType, message: str = "") -> None:
        """Record what happened to a group; `pod` is a member from which the metrics' labels are taken."""
        ...

    def gang_gated(self, group: str, pod: Pod | None, gated: bool) -> None:
        """Record whether a group is held back by scheduling gates."""
        ...

    def gang_result(self, group: str, event: RecordType, message: str = "") -> None:
        """Record how an attempt of a whole group ended; SCHEDULED ends its record."""
        ...


class NoAuditor(Auditor):
    """Records nothing: the auditor is disabled."""

    @property
    def enabled(self) -> bool:
        """Return false."""
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
