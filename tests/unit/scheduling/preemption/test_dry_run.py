"""Victims: the same answer for many nodes at once as for each alone, and as a naive search."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod, PodDisruptionBudget
from koordpy.api.scheme import decode
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Filter, Plugin, PreFilter
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.preemption.budgets import Budgets
from koordpy.scheduling.preemption.dry_run import NO_VICTIMS, DryRun, Findings
from koordpy.scheduling.preemption.importance import by_importance, priority_of
from tests.unit.scheduling.worlds import NOW, framework, node, pod, world


class Fit(Plugin, Filter):
    """CPU, one node at a time."""

    name = "Fit"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        wants = int(pod.spec.containers[0].resources.requests["cpu"])
        free = (node.allocatable("cpu") - node.requested("cpu")) // 1000
        return SUCCESS if wants <= free else Status.unschedulable("Insufficient cpu")


class Counts(dict[str, int]):
    """Pods in the whole cluster, by label value."""

    def clone(self) -> "Counts":
        return Counts(self)


_COUNTS: StateKey[Counts] = StateKey("counts")


class Elsewhere(Plugin, PreFilter, Filter):
    """Passes a pod only if at most two pods labelled app=a are left in the whole cluster."""

    name = "Elsewhere"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[None, Status]:
        pods = [other for row in nodes.rows.tolist() for other in nodes.pods_on(row)]
        state.write(_COUNTS, Counts(a=sum(map(_counts, pods))))
        return None, SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        counts = state.read(_COUNTS)
        assert counts is not None
        counts["a"] += _counts(added)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        counts = state.read(_COUNTS)
        assert counts is not None
        counts["a"] -= _counts(removed)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        counts = state.read(_COUNTS)
        assert counts is not None
        return SUCCESS if counts["a"] <= 2 else Status.unschedulable("too many")


class Sociable(Elsewhere):
    """Depends on pods of other nodes, and passes every pod."""

    name = "Sociable"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS


def _counts(pod: Pod) -> bool:
    return pod.metadata.labels.get("app") == "a"


def labelled(pod: Pod, app: str) -> Pod:
    pod.metadata.labels = {"app": app}
    return pod


BUDGET = decode(
    PodDisruptionBudget,
    {
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 1},
    },
)


def search(fw: Framework, preemptor: Pod, wanted: int = 1000, nodes: NodeSet | None = None) -> Findings:
    nodes = nodes or fw.handle.nodes.all()
    state = fw.new_state()
    fw.run_pre_filter(state, preemptor, nodes)

    def may_go(victim: Pod) -> bool:
        return priority_of(victim) < priority_of(preemptor)

    return DryRun(fw, state, preemptor, may_go, Budgets([BUDGET]), NOW).run(nodes, wanted)


def told(findings: Findings) -> dict[str, Any]:
    return {
        **{
            name: ([pod.metadata.name for pod in victims.pods], victims.pdb_violations)
            for name, victims in findings.candidates.items()
        },
        **{name: (status.code, status.reasons) for name, status in findings.refused.items()},
    }


pods_of_a_node = st.lists(
    st.tuples(st.integers(1, 3), st.integers(-1, 4), st.sampled_from("ab")), min_size=0, max_size=6
)
clusters = st.lists(pods_of_a_node, min_size=1, max_size=40)


def build(described: Sequence[Sequence[tuple[int, int, str]]]) -> tuple[list[Node], list[Pod]]:
    nodes = [node(f"n{i}", cpu="8") for i in range(len(described))]
    pods = [
        labelled(pod(f"n{i}-{k}", cpu=str(cpu), node_name=f"n{i}", priority=priority), app)
        for i, on_node in enumerate(described)
        for k, (cpu, priority, app) in enumerate(on_node)
    ]
    return nodes, pods


def think(pods: Sequence[Pod], preemptor: Pod) -> tuple[list[str], int] | None:
    """The victims on a node of 8 CPU and the violated budgets; None if the pod cannot fit."""

    def cpu(some: Sequence[Pod]) -> int:
        return sum(int(p.spec.containers[0].resources.requests["cpu"]) for p in some)

    staying = [p for p in pods if priority_of(p) >= priority_of(preemptor)]
    potential = by_importance([p for p in pods if priority_of(p) < priority_of(preemptor)], NOW)
    if not potential or cpu([*staying, preemptor]) > 8:
        return None
    violating, others = Budgets([BUDGET]).split(potential)
    victims: list[Pod] = []
    for victim in (*violating, *others):
        if cpu([*staying, victim, preemptor]) <= 8:
            staying.append(victim)
        else:
            victims.append(victim)
    violated = sum(victim in violating for victim in victims)
    return [p.metadata.name for p in by_importance(victims, NOW)], violated


@given(clusters, st.integers(1, 8))
def test_victims_equal_those_of_a_naive_search(
    described: list[list[tuple[int, int, str]]], wants: int
) -> None:
    nodes, pods = build(described)
    preemptor = pod("p", cpu=str(wants), priority=3)
    findings = search(framework(world(nodes, pods), Fit), preemptor)
    for name in findings.candidates | findings.refused:
        there = [p for p in pods if p.spec.node_name == name]
        expected = think(there, preemptor)
        if name in findings.candidates:
            victims = findings.candidates[name]
            assert ([p.metadata.name for p in victims.pods], victims.pdb_violations) == expected
        else:  # a pod that fits without evictions needs none, which preemption calls an error
            assert expected is None or expected[0] == []


@given(clusters, st.integers(1, 8))
def test_a_batch_of_nodes_gets_the_same_answers_as_each_node_alone(
    described: list[list[tuple[int, int, str]]], wants: int
) -> None:
    nodes, pods = build(described)
    preemptor = pod("p", cpu=str(wants), priority=3)
    together = search(framework(world(nodes, pods), Fit), preemptor)
    alone = search(framework(world(nodes, pods), Fit, Sociable), preemptor)
    assert told(together) == told(alone)


def test_what_is_taken_off_one_node_counts_for_it_alone() -> None:
    nodes = [node("n1"), node("n2")]
    pods = [
        labelled(pod(f"{name}-{i}", node_name=name, priority=0), "a")
        for name, count in (("n1", 3), ("n2", 1))
        for i in range(count)
    ]
    findings = search(framework(world(nodes, pods), Elsewhere), pod("p", priority=9))
    assert {p.metadata.name for p in findings.candidates["n1"].pods} == {"n1-0", "n1-2"}
    assert findings.refused["n2"] == Status.unschedulable("too many").by("Elsewhere")


def test_nodes_without_less_important_pods_cannot_help() -> None:
    pods = [pod("same", cpu="8", node_name="n1", priority=3)]
    findings = search(framework(world([node("n1"), node("empty")], pods), Fit), pod("p", priority=3))
    assert findings.refused == {"n1": NO_VICTIMS, "empty": NO_VICTIMS}


def test_no_victims_at_all_is_an_error() -> None:
    pods = [pod("low", cpu="1", node_name="n1", priority=0)]
    findings = search(framework(world([node("n1")], pods), Fit), pod("p", priority=3))
    assert findings.errors == ['expected at least one victim pod on node "n1"']


def full(count: int, labels: str) -> tuple[list[Node], list[Pod]]:
    """Nodes with one pod each; `labels` are the pods' app labels in turn."""
    nodes = [node(f"n{i}") for i in range(count)]
    pods = [
        labelled(pod(f"low-{i}", cpu="8", node_name=f"n{i}", priority=0), labels[i % len(labels)])
        for i in range(count)
    ]
    return nodes, pods


def test_the_search_stops_when_enough_candidates_are_found() -> None:
    fw = framework(world(*full(200, "b")), Fit)
    findings = search(fw, pod("p", cpu="8", priority=1), wanted=40)
    assert list(findings.candidates) == [f"n{i}" for i in range(40)]
    assert not findings.refused


def test_the_search_continues_until_a_candidate_violates_no_budget() -> None:
    BUDGET.status.disruptions_allowed = 0
    try:
        nodes, pods = full(101, "a")
        labelled(pods[-1], "b")
        findings = search(framework(world(nodes, pods), Fit), pod("p", cpu="8", priority=1), wanted=10)
    finally:
        BUDGET.status.disruptions_allowed = 1
    assert next(iter(findings.candidates)) == "n100"
    assert len(findings.candidates) == 11


def test_the_order_of_the_nodes_is_the_order_of_the_search() -> None:
    fw = framework(world(*full(5, "b")), Fit)
    order = fw.handle.nodes.all().pick(np.array([3, 4, 0, 1, 2]))
    findings = search(fw, pod("p", cpu="8", priority=1), nodes=order)
    assert list(findings.candidates) == ["n3", "n4", "n0", "n1", "n2"]


def test_an_error_on_one_node_does_not_affect_the_others() -> None:
    class Breaks(Plugin, Filter):
        name = "Breaks"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            if node.name == "n1":
                raise RuntimeError("boom")
            return SUCCESS

    findings = search(framework(world(*full(3, "b")), Fit, Breaks), pod("p", cpu="8", priority=1))
    assert set(findings.candidates) == {"n0", "n2"}
    assert findings.errors == ['running Filter plugin "Breaks": RuntimeError: boom']
