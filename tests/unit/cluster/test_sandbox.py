"""Private copies of nodes: pods are added and removed, and the table does not change."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeTable
from koordpy.cluster.sandbox import Sandbox


def _node(name: str) -> Node:
    return decode(Node, {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "8", "pods": "10"}}})


def _pod(name: str, node_name: str, **requests: str) -> Pod:
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": node_name, "containers": [{"name": "c", "resources": {"requests": requests}}]},
    }
    return decode(Pod, document)


def _table(*pods: Pod) -> NodeTable:
    table = Cluster().nodes
    for name in ("a", "b"):
        table.set_node(_node(name))
    for pod in pods:
        table.observe_pod(pod)
    return table


def test_removed_amounts_are_free() -> None:
    first, second = _pod("p1", "a", cpu="1"), _pod("p2", "a", cpu="2", memory="1Gi")
    table = _table(first, second)
    nodes = table.all()
    sandbox = Sandbox(nodes)
    sandbox.take(0, [second])
    assert nodes.requested(0).tolist() == [3000, 0]
    assert sandbox.nodes.requested(0).tolist() == [1000, 0]
    assert sandbox.nodes.nonzero_requested(1).tolist() == [200 << 20, 0]
    assert list(sandbox.nodes.pods_on(int(nodes.rows[0]))) == [first]
    assert list(table.pods_on(int(nodes.rows[0]))) == [first, second]


def test_it_begins_with_what_the_set_shows() -> None:
    table = _table(_pod("p1", "a", cpu="1"))
    more = _pod("more", "", cpu="3")
    sandbox = Sandbox(table.all().with_pods({"a": [more]}))
    assert sandbox.nodes.requested(0).tolist() == [4000, 0]
    sandbox.take(0, [more])
    assert sandbox.nodes.requested(0).tolist() == [1000, 0]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), max_size=30))
def test_a_pod_put_back_takes_what_it_took(moves: list[tuple[int, int]]) -> None:
    pods = [
        [_pod(f"{node}{i}", node, cpu=f"{i + 1}00m", memory=f"{i}Gi") for i in range(5)]
        for node in ("a", "b")
    ]
    table = _table(*pods[0], *pods[1])
    sandbox = Sandbox(table.all())
    away: set[tuple[int, int]] = set()
    for index, which in moves:
        if (index, which) in away:
            sandbox.put_back(index, pods[index][which])
            away.discard((index, which))
        else:
            sandbox.take(index, [pods[index][which]])
            away.add((index, which))
    there = [pod for index in (0, 1) for which, pod in enumerate(pods[index]) if (index, which) not in away]
    expected = _table(*there).all()
    assert np.array_equal(sandbox.nodes.free(), expected.free())
    for column in (0, 1):
        assert np.array_equal(sandbox.nodes.nonzero_requested(column), expected.nonzero_requested(column))
    for row in expected.rows.tolist():
        shown = {pod.metadata.uid for pod in sandbox.nodes.pods_on(row)}
        assert shown == {pod.metadata.uid for pod in expected.pods_on(row)}


def test_a_pod_with_a_resource_that_was_unknown_can_come() -> None:
    table = _table()
    sandbox = Sandbox(table.all())
    sandbox.put(0, _pod("p1", "", cpu="1", **{"x.io/new": "2"}))
    assert sandbox.nodes.requested(0).tolist() == [1000, 0]
    column = table.resources.get("x.io/new")
    assert column is not None
    assert sandbox.nodes.requested(column).tolist() == [0, 0]
