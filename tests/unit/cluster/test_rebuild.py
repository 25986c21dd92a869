"""After any sequence of events, derived state equals a rebuild from the objects."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from koordpy.api.core import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from koordpy.api.meta import ObjectMeta
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeTable
from koordpy.cluster.store import Store

NODES = st.sampled_from([f"n{i}" for i in range(5)])
NAMES = st.sampled_from([f"p{i}" for i in range(6)])
PHASES = st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed"])
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "example.com/fpga"]),
    st.integers(0, 1000).map(str),
    max_size=4,
)

Row = dict[str, Any]


def make_pod(name: str, uid: int, node: str, requests: dict[str, str], phase: str) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests=dict(requests)))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"{name}-{uid}"),
        spec=PodSpec(node_name=node, containers=[container]),
        status=PodStatus(phase=phase),
    )


def contents(table: NodeTable) -> dict[str, Row]:
    """Return the contents of a table by name, independent of its rows and columns."""
    found: dict[str, Row] = {}
    for row in range(table.capacity):
        names = table.resources.names
        used = table.present[row] or any(True for _ in table.pods_on(row))
        if not used:
            assert not table.requested[row].any(), "a free row counts nothing"
            assert not table.allocatable[row].any()
            continue
        found[table.name_of(row)] = {
            "present": bool(table.present[row]),
            "node": table.node(row),
            "allocatable": {n: v for n, v in zip(names, table.allocatable[row].tolist(), strict=True) if v},
            "requested": {n: v for n, v in zip(names, table.requested[row].tolist(), strict=True) if v},
            "nonzero": table.nonzero_requested[row].tolist(),
            "pods": {pod.metadata.uid for pod in table.pods_on(row)},
        }
    return found


class NodeTableMachine(RuleBasedStateMachine):
    """Nodes and pods are created, changed and deleted; pods are assumed and forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.table = self.cluster._nodes = self.cluster.shared(NodeTable, capacity=2)
        self.pods, self.nodes = self.cluster.store(Pod), self.cluster.store(Node)
        self.mine = self.table.add_column(fill=-1)
        self.followed: dict[str, set[str]] = {}
        self.table.on_pods(self.comes, self.leaves)
        self.assumed: dict[str, tuple[Pod, str]] = {}
        self.uids = 0

    def comes(self, row: int, pod: Pod) -> None:
        self.mine.values[row] = 7
        self.followed.setdefault(self.table.name_of(row), set()).add(pod.metadata.uid)

    def leaves(self, row: int, pod: Pod) -> None:
        self.followed[self.table.name_of(row)].remove(pod.metadata.uid)

    @rule(name=NODES, amounts=AMOUNTS)
    def put_node(self, name: str, amounts: dict[str, Any]) -> None:
        self.nodes.apply(Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=amounts)))

    @rule(name=NODES)
    def delete_node(self, name: str) -> None:
        self.nodes.discard(name)

    @rule(name=NAMES, node=NODES, amounts=AMOUNTS, phase=PHASES, bound=st.booleans(), again=st.booleans())
    def put_pod(
        self, name: str, node: str, amounts: dict[str, str], phase: str, bound: bool, again: bool
    ) -> None:
        old = self.pods.get("ns", name)
        if old is None or again:
            self.uids += 1
            uid = self.uids
            if old is not None:
                self.assumed.pop(old.metadata.uid, None)
        else:
            uid = int(old.metadata.uid.rpartition("-")[2])
            if old.spec.node_name:
                bound, node = True, old.spec.node_name  # a binding is permanent
        pod = make_pod(name, uid, node if bound else "", amounts, phase)
        if pod.spec.node_name or pod.is_terminal:
            self.assumed.pop(pod.metadata.uid, None)
        self.pods.apply(pod)

    @rule(name=NAMES)
    def delete_pod(self, name: str) -> None:
        old = self.pods.get("ns", name)
        if old is not None:
            self.assumed.pop(old.metadata.uid, None)
        self.pods.discard(f"ns/{name}")

    @precondition(lambda self: any(self.waiting()))
    @rule(data=st.data(), node=NODES)
    def assume(self, data: st.DataObject, node: str) -> None:
        pod = data.draw(st.sampled_from(self.waiting()))
        self.table.assume(pod, node)
        self.assumed[pod.metadata.uid] = (pod, node)

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        pod = self.pods.get("ns", name)
        if pod is not None:
            known = self.assumed.pop(pod.metadata.uid, None)
            assert self.table.forget(pod.metadata.uid) is (known is not None)

    def waiting(self) -> list[Pod]:
        return [
            pod
            for pod in self.pods
            if not pod.spec.node_name and not pod.is_terminal and pod.metadata.uid not in self.assumed
        ]

    @invariant()
    def equals_a_rebuild(self) -> None:
        fresh = Cluster().nodes
        for node in self.nodes:
            fresh.set_node(node)
        for pod in self.pods:
            fresh.observe_pod(pod)
        for pod, node_name in self.assumed.values():
            fresh.assume(pod, node_name)
        assert contents(self.table) == contents(fresh)
        assert len(self.table) == len(self.nodes)

    @invariant()
    def lookups_agree(self) -> None:
        everything = self.table.all()
        assert sorted(everything.names) == sorted(node.metadata.name for node in self.nodes)
        found, missing = self.table.select([f"n{i}" for i in range(5)])
        assert sorted([*found.names, *missing]) == [f"n{i}" for i in range(5)]
        assert [self.table.row_of(name) for name in found.names] == found.rows.tolist()
        for pod in self.pods:
            uid = pod.metadata.uid
            assert self.table.is_assumed(uid) is (uid in self.assumed)

    @invariant()
    def followers_and_columns_agree(self) -> None:
        seen = {name: row["pods"] for name, row in contents(self.table).items() if row["pods"]}
        assert {name: uids for name, uids in self.followed.items() if uids} == seen
        free = [
            row
            for row in range(self.table.capacity)
            if not self.table.present[row] and not any(True for _ in self.table.pods_on(row))
        ]
        assert (self.mine.values[np.array(free, dtype=np.int64)] == -1).all()


def node_names(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def resources(pod: Pod) -> Iterable[str]:
    return pod.spec.containers[0].resources.requests


class StoreMachine(RuleBasedStateMachine):
    """Objects are created, changed and deleted; a subscriber and two indexes stay current."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Store[Pod] = Store(Pod)
        self.indexes = [self.store.index(values_of) for values_of in (node_names, resources)]
        self.model: dict[str, Pod] = {}
        self.mirror: dict[str, Pod] = {}
        self.store.subscribe(self.added, self.updated, self.deleted)

    def added(self, pod: Pod) -> None:
        assert pod.metadata.key not in self.mirror
        self.mirror[pod.metadata.key] = pod

    def updated(self, old: Pod, new: Pod) -> None:
        assert self.mirror[new.metadata.key] is old
        assert old.metadata.uid == new.metadata.uid
        self.mirror[new.metadata.key] = new

    def deleted(self, pod: Pod) -> None:
        assert self.mirror.pop(pod.metadata.key) is pod

    @rule(name=NAMES, uid=st.integers(1, 2), node=NODES, amounts=AMOUNTS)
    def apply(self, name: str, uid: int, node: str, amounts: dict[str, str]) -> None:
        pod = make_pod(name, uid, node, amounts, "Running")
        self.model[pod.metadata.key] = pod
        self.store.apply(pod)

    @rule(name=NAMES)
    def discard(self, name: str) -> None:
        self.model.pop(f"ns/{name}", None)
        self.store.discard(f"ns/{name}")

    @rule(names=st.sets(NAMES), uid=st.integers(1, 2), node=NODES)
    def replace(self, names: set[str], uid: int, node: str) -> None:
        pods = [make_pod(name, uid, node, {}, "Running") for name in sorted(names)]
        self.model = {pod.metadata.key: pod for pod in pods}
        self.store.replace(pods)

    @invariant()
    def store_and_follower_hold_the_objects(self) -> None:
        assert {pod.metadata.key: pod for pod in self.store} == self.model
        assert self.mirror == self.model
        assert all(self.store.by_key(key) is pod for key, pod in self.model.items())

    @invariant()
    def indexes_equal_a_rebuild(self) -> None:
        fresh: Store[Pod] = Store(Pod)
        for pod in self.model.values():
            fresh.apply(pod)
        values = [f"n{i}" for i in range(5)] + ["cpu", "memory", "nvidia.com/gpu"]
        for index, rebuilt in zip(self.indexes, map(fresh.index, (node_names, resources)), strict=True):
            for value in values:
                ours = {pod.metadata.key for pod in index.get(value)}
                assert ours == {pod.metadata.key for pod in rebuilt.get(value)}


for machine in (NodeTableMachine, StoreMachine):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

TestNodeTable = NodeTableMachine.TestCase
TestStore = StoreMachine.TestCase


def test_readers_share_an_index_by_its_function_and_not_by_a_name() -> None:
    store: Store[Pod] = Store(Pod)
    assert store.index(node_names) is store.index(node_names)
    assert store.index(node_names) is not store.index(resources)
    store.apply(make_pod("a", 1, "", {"cpu": "1"}, "Running"))
    assert store.index(node_names).get("") == []
    assert [pod.metadata.name for pod in store.index(resources).get("cpu")] == ["a"]
