"""RemovePodsViolatingInterPodAntiAffinity; whole runs are compared with the descheduler's in the parity
tests."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy_plugins.descheduling.removepodsviolatinginterpodantiaffinity.plugin import (
    RemovePodsViolatingInterPodAntiAffinity,
)
from koordpy_plugins.descheduling.removepodsviolatinginterpodantiaffinity.violations import Violations

from ..one_plugin import OnePlugin, node, pod


def repelling(name: str, node_name: str, repelled: str, key: str = "zone", **labels: str) -> dict[str, Any]:
    document = pod(name, node_name, **labels)
    document["spec"]["affinity"] = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": repelled}}, "topologyKey": key}
            ]
        }
    }
    return document


def profile(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], **fields: Any) -> OnePlugin:
    return OnePlugin(RemovePodsViolatingInterPodAntiAffinity, nodes, pods, point="deschedule", **fields)


NODES = [node("n1", zone="x"), node("n2", zone="x"), node("n3", zone="y")]


async def test_one_of_two_pods_that_repel_each_other_leaves():
    pods = [repelling("p", "n1", "a", app="a"), repelling("q", "n2", "a", app="a")]
    run = profile(NODES, [*pods, repelling("r", "n3", "a", app="a")])
    await run.cycle()
    assert run.calls == [("p", "the pod's required anti-affinity by zone is to pod q in the same domain")]


async def test_the_other_leaves_too_if_the_first_cannot_be_evicted():
    pods = [repelling("p", "n1", "a", app="a"), repelling("q", "n2", "a", app="a")]
    run = profile(NODES, pods, failing=["p"])
    await run.cycle()
    assert run.evicted == ["p", "q"]


async def test_the_same_node_counts_without_its_label():
    pods = [repelling("p", "n1", "b", key="rack"), pod("q", "n1", app="b"), pod("r", "n2", app="b")]
    run = profile(NODES, pods)
    await run.cycle()
    assert run.evicted == ["p"]


async def test_pods_that_the_arguments_exclude_do_not_count():
    pods = [repelling("p", "n1", "b", app="a"), pod("q", "n1", app="b")]
    run = profile(NODES, pods, args={"labelSelector": {"matchLabels": {"app": "a"}}})
    await run.cycle()
    assert run.evicted == []


async def test_it_objects_to_nodes_where_terms_would_be_violated():
    pods = [repelling("p", "n3", "b", app="a"), pod("q", "n1", app="b"), repelling("r", "n3", "z", "rack")]
    run = profile(NODES, [*pods, pod("s", "n2", app="z")])
    assert run.objection("p", "n1") == (
        "the pod's required anti-affinity by zone is to pod q in the same domain"
    )
    assert run.objection("p", "n2") is not None, "n1 is in the same zone"
    assert run.objection("p", "n3") is None
    assert run.objection("r", "n1") is None
    assert run.objection("r", "n2") is not None
    assert run.objection("s", "n3") == "the required anti-affinity of pod a/r there is to this pod"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2)), max_size=12))
def test_violations_are_those_found_pod_by_pod(placed: list[tuple[int, int, int]]):
    """Of each pod: the node, its app, the app that it repels in the zone of its node."""
    nodes = [decode(Node, node(f"n{index}", zone=f"z{index // 2}")) for index in range(4)]
    pods = [
        decode(Pod, repelling(f"p{index}", f"n{at}", f"a{to}", app=f"a{app}"))
        for index, (at, app, to) in enumerate(placed)
    ]
    by_node = {
        each.metadata.name: [item for item in pods if item.spec.node_name == each.metadata.name]
        for each in nodes
    }
    violations = Violations(nodes, by_node)
    left = list(enumerate(placed))
    for index, (at, app, to) in enumerate(placed):
        expected = any(
            other != index and its_app == to and its_at // 2 == at // 2
            for other, (its_at, its_app, _) in left
        )
        assert (violations.reason(pods[index], nodes[at]) is not None) == expected
        if expected:
            violations.remove(pods[index])
            left.remove((index, (at, app, to)))
