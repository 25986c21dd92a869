"""The records of workloads in the auditor."""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.explain.auditor import auditor
from koordpy.scheduling.explain.auditor.auditor import WorkloadAuditor, metric_labels
from koordpy.scheduling.explain.auditor.metrics import AuditorMetrics
from koordpy.scheduling.explain.auditor.settings import AuditorSettings
from koordpy.scheduling.explain.decisions import Decision, Decisions
from koordpy.scheduling.interface.auditor import RecordType
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.diagnosis import diagnosis_of
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import Status
from tests.unit.scheduling.worlds import NOW

PREFIX = "scheduler_workload_auditor_"


def pod(name: str = "p", node: str = "", gates: int = 0, **meta: Any) -> Pod:
    spec = {"nodeName": node, "schedulingGates": [{"name": f"g{i}"} for i in range(gates)], "priority": 9500}
    return decode(Pod, {"metadata": {"name": name, "namespace": "d", "uid": name, **meta}, "spec": spec})


class Audit:
    """An auditor with a separate registry."""

    def __init__(self, **settings: Any) -> None:
        self.settings = AuditorSettings(enabled=True, **settings)
        self.registry = CollectorRegistry()
        metrics = AuditorMetrics(metric_labels(self.settings), self.registry)
        self.clock = FakeClock(NOW)
        self.auditor = WorkloadAuditor(self.settings, metrics, self.clock, lambda name: name != "other")
        self.decisions = Decisions()
        self.decisions.listen(self.auditor)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"{PREFIX}{name}", {"priority": "koord-prod", **labels})

    def attempt(self, subject: Pod, audit: RecordType | None = None) -> None:
        """One attempt that fails, optionally after a plugin recorded a finding."""
        decision = Decision(subject, "default-scheduler", NOW, {})
        self.decisions.begin(decision)
        state = decision.state = CycleState()
        if audit is not None:
            diagnosis_of(state).audit_type = audit
        decision.fail("unschedulable", Status.unschedulable("full"))

    def bind(self, subject: Pod) -> None:
        decision = Decision(subject, "default-scheduler", NOW, {})
        self.decisions.begin(decision)
        decision.become("bound", "n")

    def events(self, event: str, outcome: str) -> float | None:
        name = "scheduling_events_before_outcome_sum"
        return self.value(name, event_type=event, outcome=outcome)


def test_events_are_counted_until_the_pod_is_scheduled() -> None:
    audit = Audit()
    audit.auditor.pod_added(pod())
    audit.attempt(pod())
    audit.attempt(pod())
    audit.bind(pod())
    assert len(audit.auditor) == 0
    counts = {event: audit.events(event, "scheduled") for event in ("create", "scheduleFailure", "scheduled")}
    assert counts == {"create": 1, "scheduleFailure": 2, "scheduled": 1}


def test_a_pod_deleted_without_a_node_ends_as_deleted_and_one_bound_by_others_as_scheduled() -> None:
    audit = Audit()
    for name in ("gone", "bound", "taken"):
        audit.auditor.pod_added(pod(name))
    audit.auditor.pod_deleted(pod("gone"))
    audit.auditor.pod_changed(pod("bound"), pod("bound", node="n"))
    other = decode(Pod, {"metadata": {"name": "taken", "namespace": "d"}, "spec": {"schedulerName": "other"}})
    audit.auditor.pod_changed(pod("taken"), other)
    assert (audit.events("create", "deleted"), audit.events("create", "scheduled")) == (2, 1)


def test_gates_begin_and_end_the_rounds_in_which_intervals_are_measured() -> None:
    audit = Audit()
    audit.auditor.pod_added(pod(gates=1))
    audit.clock.advance(1000)
    audit.auditor.pod_changed(pod(gates=1), pod())
    audit.clock.advance(2)
    audit.attempt(pod())
    audit.clock.advance(3)
    audit.attempt(pod())
    assert audit.value("scheduling_event_interval_seconds_count") == 2
    assert audit.value("scheduling_event_interval_seconds_sum") == 5
    audit.auditor.pod_deleted(pod())
    assert audit.events("gatedByQueueAdmission", "deleted") == 1
    assert audit.events("admissionPassed", "deleted") == 1


def test_without_gates_the_first_event_starts_the_timer() -> None:
    audit = Audit()
    audit.auditor.pod_added(pod())
    audit.clock.advance(1000)
    audit.attempt(pod())
    assert audit.value("scheduling_event_interval_seconds_count") is None


def test_victims_that_are_all_deleted_end_a_cycle_and_begin_a_wait(caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit()
    audit.auditor.pod_added(pod())
    audit.attempt(pod(), RecordType.PREEMPT_NOMINATED)
    for _ in range(4):
        audit.attempt(pod(), RecordType.VICTIM_DELETING)
    audit.clock.advance(31)
    with caplog.at_level(logging.WARNING):
        audit.attempt(pod(), RecordType.VICTIMS_DELETED)
    assert audit.value("preemption_to_victim_deleted_seconds_sum") == 31
    assert audit.value("preemption_victim_deleting_retries_sum") == 4
    alerts = [message.split(": ")[2].split(",")[0] for message in caplog.messages]
    assert alerts == ["victims deleted slowly", "slow victim deletion"]
    audit.clock.advance(11)
    caplog.clear()
    audit.bind(pod())
    assert audit.value("victim_reschedule_duration_seconds_sum") == 11
    assert "slow reschedule after victim deletion" in caplog.text
    assert audit.value("preemption_cycle_interrupted_seconds_count") is None


def test_a_failure_after_a_nomination_invalidates_it_once() -> None:
    audit = Audit()
    audit.auditor.pod_added(pod())
    audit.attempt(pod(), RecordType.PREEMPT_NOMINATED)
    audit.clock.advance(7)
    audit.attempt(pod())
    audit.attempt(pod(), RecordType.PREEMPT_FAILURE)
    assert audit.value("preemption_invalidations_total") == 1
    assert audit.value("preemption_cycle_interrupted_seconds_sum") == 7
    audit.attempt(pod(), RecordType.PREEMPT_NOMINATED)
    assert audit.value("repeated_preemptions_total") == 1
    assert audit.value("preemption_invalidations_total") == 1  # the first is invalid already
    audit.attempt(pod(), RecordType.PREEMPT_NOMINATED)
    assert audit.value("preemption_invalidations_total") == 2
    audit.auditor.pod_deleted(pod())
    assert audit.value("preemption_cycle_interrupted_seconds_count") == 3


def test_an_attempt_with_a_plugins_finding_is_not_a_plain_failure() -> None:
    audit = Audit()
    audit.auditor.pod_added(pod())
    audit.attempt(pod(), RecordType.PREEMPT_NOMINATED)
    audit.attempt(pod())
    audit.auditor.pod_deleted(pod())
    assert audit.events("scheduleFailure", "deleted") == 1
    assert audit.events("preemptNominated", "deleted") == 1


def test_series_have_the_labels_of_pods_that_the_settings_name() -> None:
    audit = Audit(metric_labels=" quota = quota.example/name ,nonsense,=x,y=")
    audit.auditor.pod_added(pod(labels={"quota.example/name": "q1"}))
    audit.auditor.pod_deleted(pod())
    found = audit.value(
        "scheduling_events_before_outcome_sum", quota="q1", event_type="create", outcome="deleted"
    )
    assert found == 1


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "g"}},
        {"annotations": {"gang.scheduling.koordinator.sh/name": "g"}},
    ],
)
def test_pods_of_gangs_are_in_the_record_of_their_group(meta: dict[str, Any]) -> None:
    audit = Audit()
    member = pod(**meta)
    audit.auditor.pod_added(member)
    assert len(audit.auditor) == 0
    audit.auditor.gang_added("d/g", 3)
    audit.auditor.gang_added("d/g", 5)
    audit.auditor.gang_gated("d/g", member, True)
    audit.auditor.gang_gated("d/g", None, False)
    audit.auditor.gang_happened("d/g", member, RecordType.GANG_SATISFIED)
    audit.auditor.diagnosed(member, "d/g", RecordType.PREEMPT_FAILURE, "")
    audit.auditor.gang_result("d/g", RecordType.SCHEDULED)
    assert len(audit.auditor) == 0
    assert audit.events("gangMinMemberSatisfied", "gangScheduled") == 1
    assert audit.events("preemptFailure", "gangScheduled") == 1


def test_a_deleted_gang_ends_as_deleted() -> None:
    audit = Audit()
    audit.auditor.gang_added("d/g", 3)
    audit.auditor.gang_deleted("d/g")
    sample = audit.registry.get_sample_value(
        f"{PREFIX}scheduling_events_before_outcome_sum",
        {"priority": "", "event_type": "create", "outcome": "gangDeleted"},
    )
    assert sample == 1


EVENTS = st.sampled_from(["add", "gate", "ungate", "fail", "bind", "delete", *RecordType])


@given(st.lists(st.tuples(EVENTS, st.integers(0, 100)), max_size=40))
def test_no_order_of_events_leaks_a_record_or_measures_a_negative_time(
    happened: list[tuple[Any, int]],
) -> None:
    audit = Audit()
    subject = pod()
    for event, seconds in happened:
        audit.clock.advance(seconds)
        match event:
            case "add":
                audit.auditor.pod_added(subject)
            case "gate":
                audit.auditor.pod_changed(subject, pod(gates=1))
            case "ungate":
                audit.auditor.pod_changed(pod(gates=1), subject)
            case "fail":
                audit.attempt(subject)
            case "bind":
                audit.bind(subject)
            case "delete":
                audit.auditor.pod_deleted(subject)
            case _:
                audit.attempt(subject, event)
    audit.auditor.pod_deleted(subject)
    assert len(audit.auditor) == 0
    for metric in audit.registry.collect():
        assert all(sample.value >= 0 for sample in metric.samples if sample.name.endswith("_sum"))


def test_a_plugin_records_what_happened_to_a_waiting_pod() -> None:
    audit = Audit()
    waiting, gone = pod(), pod("gone")
    audit.auditor.pod_added(waiting)
    assert audit.auditor.enabled
    audit.auditor.happened(waiting, RecordType.PREEMPT_NOMINATED, "n1")
    audit.clock.advance(7.0)
    audit.auditor.happened(waiting, RecordType.VICTIMS_DELETED)
    audit.auditor.happened(gone, RecordType.PREEMPT_NOMINATED)
    assert audit.value("preemption_to_victim_deleted_seconds_sum") == 7.0
    audit.bind(waiting)
    assert audit.events("preemptNominated", "scheduled") == 1
    assert len(audit.auditor) == 0


def test_groups_that_never_end_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditor, "MOST_GROUPS", 2)
    audit = Audit()
    for number in range(3):
        audit.auditor.gang_added(f"d/g{number}", 1)
    audit.auditor.gang_happened("d/g2", None, RecordType.GANG_SATISFIED)  # not recorded, and no error
    assert len(audit.auditor) == 2
    audit.auditor.gang_result("d/g0", RecordType.SCHEDULED)
    audit.auditor.gang_added("d/g2", 1)
    assert len(audit.auditor) == 2


def test_without_an_auditor_nothing_is_recorded() -> None:
    off = Handle(Cluster(FakeClock(NOW))).auditor
    assert not off.enabled
    off.happened(pod(), RecordType.PREEMPT_NOMINATED)
    off.gang_added("d/g", 1)
    off.gang_gated("d/g", None, True)
    off.gang_happened("d/g", None, RecordType.GANG_SATISFIED)
    off.gang_result("d/g", RecordType.SCHEDULED)
    off.gang_deleted("d/g")
