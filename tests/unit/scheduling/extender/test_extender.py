import json
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.extender.wire import BadBody
from koordpy.scheduling.interface import Filter, Plugin, Preempt, Score, Victims
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..worlds import extender, filter_body, node, pod, pod_document, world


class NoB(Plugin, Filter, Score):
    """Rejects b as unresolvable and c as unschedulable; prefers long names."""

    name = "NoB"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if node.name == "b":
            return Status.unresolvable("is b")
        return Status.unschedulable("is c") if node.name == "c" else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(node.name)


def abc() -> Extender:
    return extender(world(map(node, ["a", "aa", "b", "c"])), NoB)


def filtered(made: Extender, names: list[str], document: dict[str, Any] | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(made.filter(filter_body(document or pod_document("p"), names))[0])
    return answer


def test_rejected_nodes_are_separated_by_whether_preemption_helps() -> None:
    assert filtered(abc(), ["aa", "b", "c", "a"]) == {
        "NodeNames": ["aa", "a"],
        "FailedNodes": {"c": "is c"},
        "FailedAndUnresolvableNodes": {"b": "is b"},
        "Error": "",
    }


def test_a_node_that_is_not_known_yet_is_answered_clearly() -> None:
    answer = filtered(abc(), ["a", "ghost"])
    assert answer["NodeNames"] == ["a"]
    assert "not known" in answer["FailedAndUnresolvableNodes"]["ghost"]


def test_full_nodes_are_returned_unchanged() -> None:
    items = [{"metadata": {"name": name}, "custom": {"kept": name}} for name in ("a", "b")]
    body = json.dumps({"Pod": pod_document("p"), "Nodes": {"items": items}, "NodeNames": None}).encode()
    answer = json.loads(abc().filter(body)[0])
    assert answer["Nodes"]["items"] == [items[0]]
    assert answer["FailedAndUnresolvableNodes"] == {"b": "is b"}


def test_nothing_is_answered_before_the_cluster_is_listed() -> None:
    made = abc()
    made.handle.cluster.store(Node).synced = False
    assert "not listed so far: Node" in filtered(made, ["a"])["Error"]


def test_a_pod_of_an_unknown_scheduler_is_refused_by_name() -> None:
    answer = filtered(abc(), ["a"], pod_document("p", schedulerName="other"))
    assert "schedulerName 'other'" in answer["Error"]


@pytest.mark.parametrize(
    "body", [b"{}", b'{"Pod":{"metadata":{"uid":"u"}}}', b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":[]}']
)
def test_a_body_without_pod_uid_or_nodes_is_refused(body: bytes) -> None:
    with pytest.raises(BadBody):
        abc().filter(body)


def test_prioritize_answers_with_what_was_scored_ahead() -> None:
    made = abc()
    document = pod_document("p")
    answer, attempt = made.filter(filter_body(document, ["a", "aa", "b"]))
    assert attempt is not None
    made.work_ahead(attempt)
    scored = attempt.priorities
    names = json.loads(answer)["NodeNames"]
    assert made.prioritize(filter_body(document, names)) is scored
    assert json.loads(scored) == [{"Host": "a", "Score": 1}, {"Host": "aa", "Score": 2}]


def test_prioritize_scores_other_nodes_when_another_extender_dropped_some() -> None:
    made = abc()
    document = pod_document("p")
    made.filter(filter_body(document, ["a", "aa"]))
    assert json.loads(made.prioritize(filter_body(document, ["aa"]))) == [{"Host": "aa", "Score": 2}]


def test_prioritize_without_a_filter_call_still_scores() -> None:
    answer = abc().prioritize(filter_body(pod_document("p"), ["aa", "ghost"]))
    assert json.loads(answer) == [{"Host": "aa", "Score": 2}, {"Host": "ghost", "Score": 0}]


def test_a_second_filter_call_is_a_new_attempt() -> None:
    made = abc()
    first = made.filter(filter_body(pod_document("p"), ["a", "aa"]))[1]
    second = made.filter(filter_body(pod_document("p"), ["a", "aa"]))[1]
    assert first is not None
    assert second is not None
    assert first.state is not second.state
    assert made.attempts.get("uid-p") is second


def test_attempts_are_bounded_in_number_and_age() -> None:
    made = abc()
    made.attempts.most = 2
    for index in range(3):
        made.filter(filter_body(pod_document(f"p{index}"), ["a", "aa"]))
    assert [attempt.pod.metadata.name for attempt in made.attempts] == ["p1", "p2"]
    made.clock.advance(made.attempts.seconds + 1)  # type: ignore[attr-defined]
    assert made.attempts.get("uid-p2") is None


def test_attempts_are_bounded_in_memory_and_answer_as_before() -> None:
    made = abc()
    for index in range(5):
        _, attempt = made.filter(filter_body(pod_document(f"p{index}"), ["a", "aa", "b"]))
        assert attempt is not None
        made.attempts.budget.limit = 3 * attempt.size
        made.work_ahead(attempt)
    kept = [attempt for attempt in made.attempts if attempt.kept is not None]
    assert [attempt.pod.metadata.name for attempt in kept] == ["p2", "p3", "p4"]
    [oldest, *_] = made.attempts
    assert oldest.is_condensed
    assert (oldest.scores, oldest.priorities, oldest.decision.outcome) == (None, b"", None)
    newest, first = (made.decisions.of("default", name)[0] for name in ("p4", "p0"))
    assert (first.rejections, first.top_nodes) == (newest.rejections, newest.top_nodes)
    answers = [made.prioritize(filter_body(pod_document(name), ["a", "aa"])) for name in ("p0", "p4")]
    assert answers[0] == answers[1]


def test_attempts_that_have_ended_take_no_memory_from_others() -> None:
    made = abc()
    for index in range(9):
        _, attempt = made.filter(filter_body(pod_document(f"p{index}"), ["a", "aa"]))
        assert attempt is not None
        made.attempts.budget.limit = 2 * attempt.size
        made.work_ahead(attempt)
        if 0 < index < 8:
            made.attempts.discard(attempt)
    assert [attempt.is_condensed for attempt in made.attempts] == [False, False]


def test_an_attempt_ends_with_its_pod() -> None:
    made = abc()
    made.handle.cluster.store(Pod).apply(pod("p"))
    made.filter(filter_body(pod_document("p"), ["a", "aa"]))
    made.handle.cluster.store(Pod).discard("default/p")
    assert len(made.attempts) == 0


class SparesTheOld(Plugin, Preempt):
    name = "SparesTheOld"

    def preempt(self, state, pod, victims):
        return {
            node: Victims([victim for victim in proposal.pods if victim.metadata.name != "old"], 0)
            for node, proposal in victims.items()
            if node != "b"
        }


def preempted(made: Extender, victims: dict[str, list[str]]) -> dict[str, Any]:
    proposal = {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1}
        for name, uids in victims.items()
    }
    body = json.dumps({"Pod": pod_document("p"), "NodeNameToMetaVictims": proposal}).encode()
    agreed: dict[str, Any] = json.loads(made.preempt(body))["NodeNameToMetaVictims"]
    return agreed


def occupied(*classes: type[Plugin]) -> Extender:
    pods = [pod("old", node_name="a"), pod("new", node_name="a"), pod("x", node_name="b")]
    return extender(world([node("a"), node("b")], pods), *classes)


def test_a_proposal_is_accepted_unchanged_if_no_plugin_objects() -> None:
    agreed = preempted(occupied(NoB), {"a": ["uid-old", "uid-new"]})
    assert agreed == {"a": {"Pods": [{"UID": "uid-old"}, {"UID": "uid-new"}], "NumPDBViolations": 1}}


def test_plugins_may_drop_nodes_and_victims() -> None:
    agreed = preempted(occupied(SparesTheOld), {"a": ["uid-old", "uid-new"], "b": ["uid-x"]})
    assert agreed == {"a": {"Pods": [{"UID": "uid-new"}], "NumPDBViolations": 0}}


def test_a_node_with_a_victim_that_is_gone_is_dropped() -> None:
    assert preempted(occupied(), {"a": ["uid-gone"], "b": ["uid-x"]}).keys() == {"b"}


def test_a_node_that_filters_reject_regardless_of_victims_is_dropped() -> None:
    assert preempted(occupied(NoB), {"a": ["uid-old"], "b": ["uid-x"]}).keys() == {"a"}


def test_victims_may_come_as_full_pods() -> None:
    victims = {"a": {"Pods": [pod_document("old", node_name="a")], "NumPDBViolations": 0}}
    body = json.dumps({"Pod": pod_document("p"), "NodeNameToVictims": victims}).encode()
    agreed = json.loads(occupied(NoB).preempt(body))["NodeNameToMetaVictims"]
    assert agreed == {"a": {"Pods": [{"UID": "uid-old"}], "NumPDBViolations": 0}}


def test_a_decision_explains_refusals_and_scores() -> None:
    made = abc()
    _, attempt = made.filter(filter_body(pod_document("p"), ["a", "aa", "b", "c"]))
    assert attempt is not None
    made.work_ahead(attempt)
    (decision,) = made.decisions.of("default", "p")
    assert (decision.outcome, decision.evaluated_nodes, decision.feasible_nodes) == ("filtered", 4, 2)
    assert {(r.plugin, r.reason, r.nodes) for r in decision.rejections} == {
        ("NoB", "is b", 1),
        ("NoB", "is c", 1),
    }
    assert [(score.node, score.total) for score in decision.top_nodes] == [("aa", 2), ("a", 1)]
    assert decision.weights == {"NoB": 1}


def test_a_pod_without_a_node_is_explained_in_kube_schedulers_words() -> None:
    made = abc()
    filtered(made, ["b", "c"])
    (decision,) = made.decisions.recent()
    assert decision.outcome == "unschedulable"
    assert decision.message == "0/2 nodes are available: 1 is b, 1 is c."


def test_decisions_keep_only_the_latest() -> None:
    made = abc()
    for index in range(250):
        filtered(made, ["a"], pod_document(f"p{index}"))
    assert len(made.decisions.recent(1000)) == 200
    assert made.decisions.of("default", "p0") == []


def test_condensed_decisions_say_the_same() -> None:
    made = abc()
    for index in range(40):
        _, attempt = made.filter(filter_body(pod_document(f"p{index}"), ["a", "aa", "b"]))
        assert attempt is not None
        made.work_ahead(attempt)
    newest, oldest = made.decisions.of("default", "p39")[0], made.decisions.of("default", "p0")[0]
    assert oldest.rejections == newest.rejections
    assert oldest.top_nodes == newest.top_nodes
    assert (oldest.evaluated_nodes, oldest.feasible_nodes) == (3, 2)
