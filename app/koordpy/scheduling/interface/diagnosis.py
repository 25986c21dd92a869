"""The machine-readable diagnosis of one attempt of a pod, as Koordinator's tools read it.

Plugins that preempt add their findings, and may suggest what another component could do.
Source: Koordinator, `pkg/scheduler/frameworkext/schedule_diagnosis.go`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.meta import format_time

from .cycle_state import CycleState, StateKey
from .outcome import FilterOutcome
from .status import Code, Status


class SuggestionType(StrEnum):
    """What another component could do for a pod that cannot be scheduled."""

    EVICT_WORKLOAD_SELF = "EvictWorkloadSelf"
    WAITING_VICTIM_RELEASED = "WaitingVictimReleased"
    DELETE_CONFLICT_PVC = "DeleteConflictPVC"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggestion."""

    type: SuggestionType
    message: str

    @property
    def reason(self) -> str:
        """The suggestion as a reason of a status."""
        return f"Suggestion: {{type: {self.type}, message: {self.message}}}"


@dataclass(slots=True)
class ScheduleDiagnosis:
    """Why nodes were rejected, in one pass over them.

    `node_to_status` may be set by a plugin; `is_job` means that the pass was for a whole job, so that pods
    waiting to be bound do not count as offered slots.
    """

    node_to_status: Mapping[str, Status] = field(default_factory=dict)
    already_wait_for_bound_pods: Sequence[Pod] = ()
    already_wait_for_bound: int = 0
    node_offer_slot: dict[str, int] = field(default_factory=dict)
    is_job: bool = False

    def document(self) -> dict[str, Any]:
        """Return the JSON form."""
        slots = self.node_offer_slot
        if not self.is_job and self.already_wait_for_bound_pods:
            slots = Counter(pod.spec.node_name for pod in self.already_wait_for_bound_pods)
        found: dict[str, Any] = {"alreadyWaitForBound": self.already_wait_for_bound}
        if slots:
            found["nodeOfferSlot"] = dict(sorted(slots.items()))
        if self.node_to_status:
            found["nodeFailedDetails"] = node_failed_details(self.node_to_status)
        return found


@dataclass(slots=True)
class PreemptionDiagnosis:
    """Why preemption found no victims."""

    dry_run_filter_diagnosis: ScheduleDiagnosis | None = None
    other_diagnosis: Any = None
    failed_message: str = ""

    def document(self) -> dict[str, Any]:
        """Return the JSON form."""
        dry_run = self.dry_run_filter_diagnosis
        found = {
            "dryRunFilterDiagnosis": None if dry_run is None else dry_run.document(),
            "otherDiagnosis": self.other_diagnosis,
        }
        return found | ({"failedMessage": self.failed_message} if self.failed_message else {})


@dataclass(slots=True)
class Diagnosis:
    """The diagnosis of one attempt. Clones of the attempt's state share it.

    `audit_type` and `audit_message` are what the workload auditor records of the attempt, if anything.
    """

    timestamp: datetime | None = None
    target_pod: Pod | None = None
    questioned_key: str = ""
    nominated_node: str = ""
    pre_filter_message: str = ""
    topology_key_to_explain: str = ""
    is_root_cause_pod: bool = True
    schedule: ScheduleDiagnosis | None = None
    preemption: PreemptionDiagnosis | None = None
    suggestion: Suggestion | None = None
    audit_type: str = ""
    audit_message: str = ""

    def suggest(self, type_: SuggestionType, message: str) -> bool:
        """Set the suggestion unless there is one already; return whether it was set."""
        if self.suggestion is not None:
            return False
        self.suggestion = Suggestion(type_, message)
        return True

    def record(self, outcome: FilterOutcome) -> None:
        """Record why no node was found."""
        if not outcome.prefilter.is_success:
            self.pre_filter_message = outcome.prefilter.message
        if self.schedule is None:
            self.schedule = ScheduleDiagnosis()
        if not (self.pre_filter_message or self.schedule.node_to_status):
            names = outcome.nodes.names
            self.schedule.node_to_status = {
                names[i]: status
                for refusals in outcome.refusals
                for status, indexes in refusals.grouped()
                for i in indexes.tolist()
            }

    def document(self) -> dict[str, Any]:
        """Return the JSON form, members in Koordinator's order."""
        found: dict[str, Any] = {"timestamp": None if self.timestamp is None else format_time(self.timestamp)}
        for name, text in (
            ("questionedKey", self.questioned_key),
            ("nominatedNode", self.nominated_node),
            ("preFilterMessage", self.pre_filter_message),
            ("topologyKeyToExplain", self.topology_key_to_explain),
        ):
            if text:
                found[name] = text
        found["isRootCausePod"] = self.is_root_cause_pod
        found["scheduleDiagnosis"] = None if self.schedule is None else self.schedule.document()
        found["preemptionDiagnosis"] = None if self.preemption is None else self.preemption.document()
        if self.suggestion is not None:
            advice = {"type": str(self.suggestion.type), "message": self.suggestion.message}
            found["suggestion"] = {name: text for name, text in advice.items() if text}
        return found


_KEY: StateKey[Diagnosis] = StateKey("scheduling.koordinator.sh/diagnosis")


def diagnosis_of(state: CycleState) -> Diagnosis:
    """Return an attempt's diagnosis, a new one the first time."""
    known = state.read(_KEY)
    if known is None:
        known = Diagnosis()
        state.write(_KEY, known)
    return known


def existing_diagnosis(state: CycleState) -> Diagnosis | None:
    """Return an attempt's diagnosis if any plugin has started one."""
    return state.read(_KEY)


def node_failed_details(statuses: Mapping[str, Status]) -> list[dict[str, Any]]:
    """Group nodes (names to statuses) by rejecting plugin and reason."""
    groups: dict[tuple[str, str, bool], list[str]] = defaultdict(list)
    for name, status in statuses.items():
        helps = status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        groups[(status.plugin, status.message, not helps)].append(name)
    details = []
    for (plugin, reason, hopeless), names in sorted(groups.items()):
        detail = {
            "failedPlugin": plugin,
            "reason": reason,
            "preemptMightHelp": not hopeless,
            "failedNodes": sorted(names),
        }
        details.append({member: value for member, value in detail.items() if value})
    return details
