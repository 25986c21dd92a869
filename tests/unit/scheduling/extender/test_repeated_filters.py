"""kube-scheduler may filter one pod many times on hypothetical states, and bind it after any of them."""

import asyncio
import json

from koordpy.api.core import Pod
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface import Filter, Plugin, PreScore, Score
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..worlds import bind_body, filter_body, node, pod, pod_document, world
from ..worlds import extender as kube_scheduler_chooses
from .test_batching import extender, named, names_of

SCORED: StateKey[list[str]] = StateKey("scored")


class Even(Plugin, Filter, PreScore, Score):
    """Passes nodes with an even number, unless the test changes that; scores by number."""

    name = "Even"
    odd_too = False

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        odd = int(node.name[1:]) % 2
        return Status.unschedulable("odd") if odd and not self.odd_too else SUCCESS

    def pre_score(self, state: CycleState, pod: Pod, nodes: object) -> Status:
        state.write(SCORED, [])
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        scored = state.read(SCORED)
        assert scored is not None
        scored.append(node.name)
        return int(node.name[1:])


def made() -> Extender:
    return kube_scheduler_chooses(world([node(f"n{i}") for i in range(4)], [pod("p")]), Even)


def filtered(extender: Extender, *names: str) -> list[str]:
    answer = json.loads(extender.filter(filter_body(pod_document("p"), names))[0])
    return list(answer["NodeNames"] or [])


def scores(extender: Extender, *names: str) -> dict[str, int]:
    answer = json.loads(extender.prioritize(filter_body(pod_document("p"), names)))
    return {item["Host"]: item["Score"] for item in answer}


def bound(extender: Extender, node_name: str) -> str:
    answer = json.loads(asyncio.run(extender.bind(bind_body(pod_document("p"), node_name))))
    return str(answer["Error"])


def test_a_node_that_the_last_filter_refused_is_not_bound_to() -> None:
    extender = made()
    assert filtered(extender, "n0", "n1") == ["n0"]
    assert bound(extender, "n1") == "Even: odd"
    assert extender.handle.nodes.placed_on("uid-p") is None


def test_a_node_that_was_no_candidate_of_the_last_filter_is_filtered_at_the_bind() -> None:
    extender = made()
    assert filtered(extender, "n2") == ["n2"]
    assert bound(extender, "n1") == "Even: odd"
    assert filtered(extender, "n2") == ["n2"]
    assert bound(extender, "n0") == ""


def test_a_filter_that_finds_nothing_leaves_nothing_of_the_one_before() -> None:
    extender = made()
    assert filtered(extender, "n0") == ["n0"]
    assert filtered(extender, "n1") == []
    assert not len(extender.attempts)
    assert bound(extender, "n0") == ""


def test_scores_of_other_nodes_do_not_replace_those_of_the_kept_ones() -> None:
    extender = made()
    assert filtered(extender, "n0", "n1", "n2") == ["n0", "n2"]
    assert scores(extender, "n2") == {"n2": 2}
    assert scores(extender, "n0", "n2") == {"n0": 0, "n2": 2}
    assert scores(extender, "n3", "n2") == {"n3": 3, "n2": 2}
    assert scores(extender, "n0", "n2") == {"n0": 0, "n2": 2}


def test_scores_of_other_nodes_do_not_change_the_state_of_the_attempt() -> None:
    extender = made()
    filtered(extender, "n0", "n2")
    assert scores(extender, "n0", "n2") == {"n0": 0, "n2": 2}
    scores(extender, "n3", "n2", "n0")
    attempt = extender.attempts.get("uid-p")
    assert attempt is not None
    assert attempt.state.read(SCORED) == ["n0", "n2"]


def test_filters_of_one_pod_leave_one_attempt_and_one_history() -> None:
    extender = made()
    for _ in range(300):
        filtered(extender, "n0", "n2")
        filtered(extender, "n1")
        scores(extender, "n0")
        filtered(extender, "n0")
    assert len(extender.attempts) == 1
    assert len(extender.histories) == 1
    [life] = extender.histories.lives("default", "p")
    assert len(life.steps) <= 48


# --- koordpy chooses the node ------------------------------------------------------------------------


def test_a_pod_that_is_filtered_again_gets_the_same_node_and_blocks_no_other() -> None:
    nodes = [node(f"n{i}") for i in range(6)]
    made = extender(nodes)
    names = names_of(nodes)
    named(made, pod_document("p0"), names)
    first = named(made, pod_document("p1"), names)
    assert {named(made, pod_document("p1"), names) for _ in range(20)} == {first}
    second = named(made, pod_document("p2"), names)
    assert second != first
    assert named(made, pod_document("p1"), names) == first
    assert named(made, pod_document("p2"), names) == second


def test_pods_of_a_group_that_is_tried_twice_get_the_same_nodes() -> None:
    nodes = [node(f"n{i}") for i in range(8)]
    made = extender(nodes)
    names = names_of(nodes)
    named(made, pod_document("p0"), names)
    tries = [[named(made, pod_document(f"p{i}"), names) for i in range(1, 5)] for _ in range(3)]
    assert [sorted(each) for each in tries] == [sorted(tries[0])] * 3


def test_a_pod_tried_with_other_candidates_no_longer_counts_on_its_former_node() -> None:
    nodes = [node("best", cpu="64", memory="256Gi"), node("s0"), node("s1")]
    made = extender(nodes, enabled=False)
    assert named(made, pod_document("p0"), names_of(nodes)) == "best"
    assert made._chooser is not None
    assert made._chooser.promised_since(0) == ["best"]
    assert named(made, pod_document("p0"), ["s0"]) == "s0"
    assert made._chooser.promised_since(0) == []


def test_a_pod_that_is_gone_counts_on_no_node() -> None:
    nodes = [node(f"n{i}") for i in range(4)]
    made = extender(nodes, pods=[pod("p0")])
    named(made, pod_document("p0"), names_of(nodes))
    assert made._chooser is not None
    assert len(made._chooser.promised_since(0)) == 1
    made.handle.cluster.store(Pod).discard("default/p0")
    assert made._chooser.promised_since(0) == []
    assert not len(made.attempts)
