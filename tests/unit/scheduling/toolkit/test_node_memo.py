import numpy as np

from koordpy.api.core import Node
from koordpy.api.meta import ObjectMeta
from koordpy.cluster.cluster import Cluster
from koordpy.lib import byte_budget
from koordpy.scheduling.toolkit.node_memo import MemoCache, NodeMemo


def cluster_with_nodes(number: int) -> Cluster:
    cluster = Cluster()
    for index in range(number):
        cluster.store(Node).apply(Node(metadata=ObjectMeta(name=f"n{index}")))
    return cluster


def test_memos_of_large_requesting_objects_are_dropped_beyond_the_budget() -> None:
    table = cluster_with_nodes(3).nodes
    before = byte_budget.usage()["node_memos"].held if "node_memos" in byte_budget.usage() else 0
    memos = MemoCache(table, max_bytes=1 << 20)
    asked = []

    def answer(node: Node) -> int:
        asked.append(node.metadata.name)
        return 7

    askers = [(f"{number}" * 20_000,) for number in range(200)]
    for asker in (*askers, askers[-1]):
        assert memos.of(asker, answer).of(table.all()).tolist() == [7, 7, 7]
        assert byte_budget.usage()["node_memos"].held - before <= 1 << 20
    assert len(asked) == 3 * len(askers)


def test_answers_follow_nodes_that_change_come_and_go_once_all_are_known() -> None:
    cluster = cluster_with_nodes(3)
    table, store = cluster.nodes, cluster.store(Node)
    memo = NodeMemo(table, lambda node: int(node.metadata.labels.get("x", "7")))
    some = table.all().pick(np.array([2, 0]))
    assert memo.of(some).tolist() == [7, 7]
    assert memo.of(table.all()).tolist() == [7, 7, 7]
    store.apply(Node(metadata=ObjectMeta(name="n1", labels={"x": "8"})))
    assert memo.of(some).tolist() == [7, 7]
    assert memo.of(table.all()).tolist() == [7, 8, 7]
    store.discard("n2")
    store.apply(Node(metadata=ObjectMeta(name="n3", labels={"x": "9"})))
    assert dict(zip(table.all().names, memo.of(table.all()).tolist(), strict=True)) == {
        "n0": 7,
        "n1": 8,
        "n3": 9,
    }
