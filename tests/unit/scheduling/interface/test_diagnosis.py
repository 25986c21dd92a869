"""Diagnoses as Koordinator's tools read them."""

import json
from datetime import UTC, datetime

import numpy as np

from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.diagnosis import (
    Diagnosis,
    PreemptionDiagnosis,
    ScheduleDiagnosis,
    SuggestionType,
    diagnosis_of,
    existing_diagnosis,
    node_failed_details,
)
from koordpy.scheduling.interface.outcome import FilterOutcome, Refusals
from koordpy.scheduling.interface.status import SUCCESS, Code, Status, Verdict
from tests.unit.scheduling.worlds import node, pod, world


def outcome(**refused: Status) -> FilterOutcome:
    cluster = world([node(name) for name in sorted(refused)])
    nodes = cluster.nodes.all()
    statuses = [refused[name] for name in nodes.names]
    verdict = Verdict.of(statuses)
    return FilterOutcome(
        nodes,
        np.zeros(len(nodes), np.bool_),
        [Refusals(statuses[0].plugin, np.arange(len(nodes)), verdict)],
    )


def test_nodes_are_grouped_by_plugin_reason_and_code_and_sorted() -> None:
    cpu = Status(Code.UNSCHEDULABLE, ("Insufficient cpu",), "NodeResourcesFit")
    hopeless = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Insufficient cpu",), "NodeResourcesFit")
    taint = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("taint",), "A")
    details = node_failed_details({"n2": cpu, "n1": cpu, "n3": hopeless, "n4": taint, "n5": SUCCESS})
    assert details == [
        {"preemptMightHelp": True, "failedNodes": ["n5"]},
        {"failedPlugin": "A", "reason": "taint", "failedNodes": ["n4"]},
        {
            "failedPlugin": "NodeResourcesFit",
            "reason": "Insufficient cpu",
            "preemptMightHelp": True,
            "failedNodes": ["n1", "n2"],
        },
        {"failedPlugin": "NodeResourcesFit", "reason": "Insufficient cpu", "failedNodes": ["n3"]},
    ]


def test_an_empty_diagnosis_has_the_mandatory_members() -> None:
    assert json.dumps(Diagnosis().document()) == (
        '{"timestamp": null, "isRootCausePod": true, "scheduleDiagnosis": null, "preemptionDiagnosis": null}'
    )


def test_a_full_diagnosis_has_its_members_in_koordinators_order() -> None:
    found = Diagnosis(
        datetime(2026, 3, 1, tzinfo=UTC),
        pod("p"),
        "default/p",
        "n9",
        topology_key_to_explain="zone",
        preemption=PreemptionDiagnosis(ScheduleDiagnosis(is_job=True), {"a": 1}, "no victims"),
    )
    assert found.suggest(SuggestionType.EVICT_WORKLOAD_SELF, "go")
    found.record(outcome(a=Status(Code.UNSCHEDULABLE, ("full",), "Fit")))
    assert list(found.document()) == [
        "timestamp",
        "questionedKey",
        "nominatedNode",
        "topologyKeyToExplain",
        "isRootCausePod",
        "scheduleDiagnosis",
        "preemptionDiagnosis",
        "suggestion",
    ]
    assert found.document()["timestamp"] == "2026-03-01T00:00:00Z"
    assert found.document()["scheduleDiagnosis"] == {
        "alreadyWaitForBound": 0,
        "nodeFailedDetails": [
            {"failedPlugin": "Fit", "reason": "full", "preemptMightHelp": True, "failedNodes": ["a"]}
        ],
    }
    assert found.document()["preemptionDiagnosis"] == {
        "dryRunFilterDiagnosis": {"alreadyWaitForBound": 0},
        "otherDiagnosis": {"a": 1},
        "failedMessage": "no victims",
    }
    assert found.document()["suggestion"] == {"type": "EvictWorkloadSelf", "message": "go"}


def test_a_rejection_of_the_pod_replaces_those_of_nodes() -> None:
    refused = outcome(a=Status(Code.UNSCHEDULABLE, ("full",), "Fit"))
    refused.prefilter = Status(Code.UNSCHEDULABLE, ("no quota",), "ElasticQuota")
    found = Diagnosis()
    found.record(refused)
    assert found.pre_filter_message == "no quota"
    assert found.document()["scheduleDiagnosis"] == {"alreadyWaitForBound": 0}


def test_statuses_set_by_a_plugin_are_kept() -> None:
    known = {"b": Status(Code.UNSCHEDULABLE, ("by the plugin",), "Coscheduling")}
    found = Diagnosis(schedule=ScheduleDiagnosis(known))
    found.record(outcome(a=Status(Code.UNSCHEDULABLE, ("full",), "Fit")))
    assert found.schedule is not None
    assert found.schedule.node_to_status == known


def test_pods_that_wait_to_be_bound_count_as_offered_slots_unless_it_is_about_a_job() -> None:
    waiting = [pod("a", node_name="n2"), pod("b", node_name="n1"), pod("c", node_name="n2")]
    schedule = ScheduleDiagnosis(already_wait_for_bound_pods=waiting, already_wait_for_bound=3)
    assert schedule.document() == {"alreadyWaitForBound": 3, "nodeOfferSlot": {"n1": 1, "n2": 2}}
    schedule.is_job = True
    assert schedule.document() == {"alreadyWaitForBound": 3}


def test_the_first_suggestion_counts() -> None:
    found = Diagnosis()
    assert found.suggest(SuggestionType.WAITING_VICTIM_RELEASED, "wait")
    assert not found.suggest(SuggestionType.EVICT_WORKLOAD_SELF, "go")
    assert found.suggestion is not None
    assert found.suggestion.reason == "Suggestion: {type: WaitingVictimReleased, message: wait}"


def test_clones_of_a_state_share_its_diagnosis() -> None:
    state = CycleState()
    assert existing_diagnosis(state) is None
    found = diagnosis_of(state)
    assert diagnosis_of(state.clone()) is found is existing_diagnosis(state)
