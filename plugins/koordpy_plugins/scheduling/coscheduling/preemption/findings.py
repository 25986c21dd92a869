"""What one preemption of a job found: the reason for users, and everything for the diagnosis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from koordpy.api.core import Pod
from koordpy.scheduling.interface.auditor import RecordType
from koordpy.scheduling.interface.diagnosis import Diagnosis, PreemptionDiagnosis, ScheduleDiagnosis
from koordpy.scheduling.interface.status import Status

from .preemptor import Preemptor

ALREADY_PREEMPTED: Final = "preemption already attempted by %s with message %s"
NO_PENDING_PODS: Final = "no pending pods"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
STILL_TERMINATING: Final = "not eligible due to terminating pod on the nominated node."
NO_NODES: Final = "no nodes available"
NOT_HELPFUL: Final = "preemption not helpful"
VICTIMS_FAILED: Final = "select victims on node error"
EVICTION_FAILED: Final = "prepare candidates error"
SUCCEEDED: Final = "preempt success, alreadyWaitingForBound: %d/%d"

BY_POD: Final = "Pod"
BY_JOB: Final = "Job"
"""How members were placed: one by one, or by the solver of the network topology."""

_FAILURES = frozenset((NO_NODES, NOT_HELPFUL, VICTIMS_FAILED, EVICTION_FAILED))


@dataclass(slots=True)
class Findings:
    """The findings; amounts are by node name, members and victims by key.

    `reason` is one of the constants above with its placeholders, and the `result` label of the metric;
    `message` is the text with values, `mode` how members were placed.
    """

    preemptor: Preemptor
    reason: str = ""
    message: str = ""
    mode: str = ""
    terminating: dict[str, str] = field(default_factory=dict)
    """The nodes of terminating victims that nominated members wait for."""
    possible_victims: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    plan: Mapping[str, str] = field(default_factory=dict)
    victims: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    statuses: Mapping[str, Status] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    unplaced: Sequence[Pod] = ()
    victim_error: str = ""
    nominations_failed: dict[str, str] = field(default_factory=dict)
    """Errors of status patches, by the keys of the members."""

    @property
    def text(self) -> str:
        """The message, or the reason if there is none."""
        return self.message or self.reason

    def describe(self, diagnosis: Diagnosis) -> None:
        """Add the findings to the diagnosis of the attempt."""
        placed = self.preemptor.size - len(self.unplaced)
        dry_run = ScheduleDiagnosis(
            node_to_status=self.statuses,
            already_wait_for_bound=placed,
            node_offer_slot=dict(self.slots),
            is_job=self.mode == BY_JOB,
        )
        diagnosis.preemption = PreemptionDiagnosis(dry_run, self._document())
        if self.reason == SUCCEEDED:
            diagnosis.audit_type = RecordType.PREEMPT_NOMINATED
        elif self.reason == STILL_TERMINATING:
            diagnosis.audit_type = RecordType.VICTIM_DELETING
        elif self.reason in _FAILURES:
            diagnosis.audit_type, diagnosis.audit_message = RecordType.PREEMPT_FAILURE, self.reason

    def _document(self) -> dict[str, Any]:
        victims = [
            {
                "nodeName": node_name,
                "possibleVictims": [
                    {
                        "namespacedName": {
                            "namespace": pod.metadata.namespace,
                            "name": pod.metadata.name,
                            "uid": pod.metadata.uid,
                        }
                    }
                    for pod in sorted(pods, key=lambda pod: pod.metadata.name)
                ],
            }
            for node_name, pods in sorted(self.victims.items())
        ]
        document = {
            "TriggerPodKey": self.preemptor.trigger.metadata.key,
            "preemptorKey": self.preemptor.key,
            "reason": self.reason,
            "message": self.message,
            "terminatingPodOnNominatedNode": self.terminating,
            "podToNominatedNode": dict(self.plan),
            "clearNominatedNodeFailedMsg": self.nominations_failed,
            "unschedulablePodsNumber": len(self.unplaced),
            "selectVictimError": self.victim_error,
            "victims": victims,
        }
        return {name: value for name, value in document.items() if value}
