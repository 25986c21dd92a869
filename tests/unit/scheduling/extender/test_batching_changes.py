"""Changes between a pass over the nodes and the pods that it serves are noticed; others do not matter."""

import asyncio
import json

import pytest

from koordpy.api.core import Node, Pod
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.cycle.ranking import LOOKED_FOR
from koordpy.scheduling.cycle.rankings import SECONDS, WORKLOADS
from koordpy.scheduling.interface import Plugin, Reserve, SignPlugin
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..worlds import bind_body, node, pod, pod_document
from .test_batching import BUSY, Looks, extender, least_allocated, named, names_of, placed

NOTE: StateKey[str] = StateKey("note")
BY_CPU = {"NodeResourcesFit": {"scoringStrategy": least_allocated(1)}}


class Notes(Plugin, SignPlugin, Reserve):
    """Stores a value in the state of each pod; `found` is the former one."""

    name = "Notes"
    found: list[str | None]

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.found.append(state.read(NOTE))
        state.write(NOTE, pod.metadata.name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Nothing was allocated."""


@pytest.mark.parametrize("which", [0, 1])
def test_nodes_that_have_shrunk_are_not_chosen(which: int) -> None:
    made = extender(BUSY, args={"NodeResourcesFit": {}})
    names = names_of(BUSY)
    used = [placed(made, pod_document(f"p{i}", cpu="8"), names) for i in range(2)]
    free = sorted(set(names) - set(used))
    made.handle.cluster.store(Node).apply(node(free[which], cpu="1"))
    assert named(made, pod_document("p2", cpu="8"), names) == free[1 - which]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_chosen_for_other_pods_are_skipped(seed: int) -> None:
    nodes = [node(f"n{i}") for i in range(8)]
    made = extender(nodes, seed=seed)
    names = names_of(nodes)
    found = [named(made, pod_document(f"a{i}"), names) for i in range(3)]
    found += [named(made, pod_document(f"b{i}", cpu="2"), names) for i in range(2)]
    found += [named(made, pod_document(f"a{i}"), names) for i in range(3, 6)]
    assert sorted(found) == names


def test_a_retried_pod_does_not_block_itself() -> None:
    nodes = [node("best", cpu="17"), *(node(f"s{i}", cpu="16") for i in range(2))]
    made = extender(nodes, args=BY_CPU)
    clock = made.clock
    assert isinstance(clock, FakeClock)
    named(made, pod_document("p0", cpu="2"), ["s0", "s1"])
    assert named(made, pod_document("p1", cpu="2"), names_of(nodes)) == "best"
    clock.advance(SECONDS + 0.01)
    assert named(made, pod_document("p1", cpu="2"), names_of(nodes)) == "best"
    assert Looks.seen == [2, 3, 3]


def test_a_node_whose_score_dropped_with_its_pod_needs_no_new_pass() -> None:
    nodes = [node("best", cpu="17"), *(node(f"s{i}", cpu="16") for i in range(3))]
    made = extender(nodes, args=BY_CPU)
    named(made, pod_document("p0", cpu="2"), ["s0", "s1"])
    assert named(made, pod_document("p1", cpu="2"), names_of(nodes)) == "best"
    assert named(made, pod_document("p2", cpu="2"), names_of(nodes)) != "best"
    assert Looks.seen == [2, 4]


def test_a_changed_node_that_is_no_candidate_needs_no_new_pass() -> None:
    nodes = [node("large", cpu="64"), *(node(f"s{i}", cpu="16") for i in range(3))]
    made = extender(nodes, args=BY_CPU)
    named(made, pod_document("p0"), ["s0", "s1"])
    assert named(made, pod_document("p1"), names_of(nodes)) == "large"
    assert named(made, pod_document("p2"), ["s0", "s1", "s2"]) == "s2"
    assert Looks.seen == [2, 4]


def test_all_nodes_are_evaluated_again_when_the_table_has_grown() -> None:
    nodes = [node(f"n{i}") for i in range(60)]
    made = extender(nodes)
    for i in range(2):
        named(made, pod_document(f"p{i}"), names_of(nodes))
    capacity = made.nodes.capacity
    more = [node(f"m{i}", cpu="64") for i in range(10)]
    for each in more:
        made.handle.cluster.store(Node).apply(each)
    assert made.nodes.capacity > capacity
    assert named(made, pod_document("p2"), names_of([*nodes, *more])).startswith("m")


def test_few_candidates_that_received_a_pod_are_skipped_too() -> None:
    nodes = [node(f"n{i:03}") for i in range(8 * LOOKED_FOR)]
    made = extender(nodes)
    named(made, pod_document("p0"), names_of(nodes))
    named(made, pod_document("p1"), names_of(nodes))
    few = names_of(nodes)[::40]
    found = [named(made, pod_document(f"q{i}"), few) for i in range(3)]
    assert len(set(found)) == 3


def test_equal_nodes_are_chosen_at_random() -> None:
    found = set()
    for seed in range(10):
        made = extender(BUSY, seed=seed)
        named(made, pod_document("p0"), ["n0", "n1"])
        found.add(named(made, pod_document("p1"), names_of(BUSY)))
    assert found >= {"n2", "n3"}


def test_pods_that_share_a_pass_have_separate_states() -> None:
    Notes.found = []
    made = extender(BUSY, Notes)
    for i in range(4):
        placed(made, pod_document(f"p{i}"), names_of(BUSY))
    assert Looks.seen == [4, 4]
    assert Notes.found == [None] * 4


def test_a_bind_to_another_node_that_has_changed_since_the_pass_is_filtered_again() -> None:
    made = extender(BUSY)
    names = names_of(BUSY)
    used = {placed(made, pod_document(f"p{i}"), names) for i in range(2)}
    changed = min(set(names) - used)
    made.handle.cluster.store(Pod).apply(pod("other", node_name=changed))
    document = pod_document("late")
    assert named(made, document, names) != changed
    assert Looks.seen == [4, 4]
    answer = json.loads(asyncio.run(made.bind(bind_body(document, changed))))
    assert answer == {"Error": ""}
    assert Looks.seen == [4, 4, 1]


def test_signatures_that_were_not_used_for_long_are_forgotten() -> None:
    nodes = [node(f"n{i}") for i in range(2 * WORKLOADS)]
    made = extender(nodes)

    def is_served(name: str, kind: int) -> bool:
        looks = len(Looks.seen)
        document = pod_document(name)
        document["metadata"]["namespace"] = f"of-{kind}"
        named(made, document, names_of(nodes))
        return len(Looks.seen) == looks

    assert [is_served(f"p{i}", 0) for i in range(3)] == [False, False, True]
    assert not any(is_served("single", kind) for kind in range(1, WORKLOADS + 1))
    assert is_served("next", 0)  # pods of which there is only one take nobody's place
    assert not any(is_served("second", kind) for kind in range(1, WORKLOADS + 1))
    assert not is_served("late", 0)
