"""The network tree: layers, places, and the status."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Node
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.network_topology.manager import PERIOD, TreeManager
from koordpy.cluster.network_topology.tree import TopologyError, Tree, build
from koordpy.lib.clock import FakeClock
from tests.unit.scheduling.worlds import NOW

LAYERS: list[dict[str, Any]] = [
    {"topologyLayer": "block", "parentTopologyLayer": "spine", "labelKey": ["block", "old-block"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
    {"topologyLayer": "spine", "parentTopologyLayer": "ClusterTopologyLayer", "labelKey": ["spine"]},
    {"topologyLayer": "rack", "parentTopologyLayer": "block", "labelKey": ["rack"]},
]


def topology(*layers: dict[str, Any]) -> ClusterNetworkTopology:
    document = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": list(layers or LAYERS)}}
    return decode(ClusterNetworkTopology, document)


def node(name: str, **labels: str) -> Node:
    labels = {key.replace("_", "-"): value for key, value in labels.items()}
    return decode(Node, {"metadata": {"name": name, "uid": name, "labels": labels}})


def outline(tree: Tree) -> dict[str, Any]:
    def below(member: Any) -> dict[str, Any]:
        return {name: below(child) for name, child in sorted(member.children.items())}

    return below(tree.root)


def test_layers_are_sorted_by_their_parents_and_nodes_are_placed_by_their_labels() -> None:
    tree = build(
        topology(),
        [
            node("n1", spine="s1", block="b1", rack="r1"),
            node("n2", spine="s1", block="b1", rack="r2"),
            node("n3", spine="s1", block="", old_block="b2", rack="r3"),
        ],
    )
    assert tree.layers == ("spine", "block", "rack", "NodeTopologyLayer")
    assert outline(tree) == {"s1": {"b1": {"r1": {"n1": {}}, "r2": {"n2": {}}}, "b2": {"r3": {"n3": {}}}}}


def test_only_the_label_of_the_lowest_layer_may_be_missing() -> None:
    nodes = [node("n1", spine="s1", block="b1"), node("n2", spine="s1", rack="r1"), node("n3")]
    assert outline(build(topology(), nodes)) == {"s1": {"b1": {"n1": {"n1": {}}}}}


def test_a_block_that_two_spines_claim_stays_with_the_first_node() -> None:
    nodes = [node("n1", spine="s1", block="b", rack="r1"), node("n2", spine="s2", block="b", rack="r2")]
    assert outline(build(topology(), nodes)) == {"s1": {"b": {"r1": {"n1": {}}, "r2": {"n2": {}}}}, "s2": {}}


@pytest.mark.parametrize(
    ("layers", "missing"),
    [
        ([LAYERS[1], LAYERS[3], LAYERS[2]], "block"),
        ([LAYERS[0]], "NodeTopologyLayer"),
        ([*LAYERS, LAYERS[2]], "ClusterTopologyLayer"),
    ],
)
def test_layers_that_are_no_path_are_refused(layers: list[dict[str, Any]], missing: str) -> None:
    with pytest.raises(TopologyError, match=f'topology layer "{missing}" not found in spec'):
        build(topology(*layers), [])


def test_a_layer_is_an_ancestor_of_those_below_it_and_unknown_ones_count_as_the_highest() -> None:
    tree = build(topology(), [])
    assert tree.is_ancestor("spine", "rack")
    assert not tree.is_ancestor("rack", "spine")
    assert not tree.is_ancestor("spine", "unknown")
    assert tree.is_ancestor("unknown", "block")


def test_the_status_lists_every_member_but_nodes_before_its_children() -> None:
    layers: list[dict[str, Any]] = [
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "spine"},
        {"topologyLayer": "spine", "parentTopologyLayer": "ClusterTopologyLayer", "labelKey": ["spine"]},
    ]
    nodes = [node("n1", spine="s2"), node("n2", spine="s1"), node("n3", spine="s2")]
    cluster = {"topologyLayer": "ClusterTopologyLayer", "topologyName": ""}
    assert msgspec.to_builtins(build(topology(*layers), nodes).status()) == [
        {
            "topologyInfo": cluster,
            "childTopologyLayer": "spine",
            "childTopologyNames": ["s1", "s2"],
            "nodeNum": 3,
        },
        *(
            {
                "topologyInfo": {"topologyLayer": "spine", "topologyName": name},
                "parentTopologyInfo": cluster,
                "childTopologyLayer": "NodeTopologyLayer",
                "nodeNum": count,
            }
            for name, count in (("s1", 1), ("s2", 2))
        ),
    ]


def tree_of(nodes: Iterable[Node]) -> Tree:
    cluster = Cluster(FakeClock(NOW))
    manager = TreeManager(cluster, None)
    cluster.store(ClusterNetworkTopology).apply(topology())
    for each in nodes:
        cluster.store(Node).apply(each)
    tree = manager.snapshot()
    assert tree is not None
    return tree


names = st.sampled_from(["", "a", "b", "c"])


@given(st.lists(st.tuples(names, names, names), max_size=12), st.randoms(use_true_random=False))
def test_the_tree_does_not_depend_on_the_order_of_nodes(
    labels: list[tuple[str, str, str]], random: Any
) -> None:
    nodes = [
        node(f"n{place:02}", spine=spine, block=block, rack=rack)
        for place, (spine, block, rack) in enumerate(labels)
    ]
    first = tree_of(nodes)
    random.shuffle(nodes)
    second = tree_of(nodes)
    assert outline(first) == outline(second)
    status = first.status()
    assert status == second.status()
    assert status[0].node_num == sum(1 for spine, block, _ in labels if spine and block)


LABELS = {"spine": "s1", "block": "b1", "rack": "r1"}


class TestManager:
    def world(self) -> tuple[FakeClock, Cluster, TreeManager]:
        clock = FakeClock(NOW)
        cluster = Cluster(clock)
        manager = TreeManager(cluster, None)
        cluster.store(Node).apply(node("n1", spine="s1", block="b1", rack="r1"))
        return clock, cluster, manager

    def test_without_a_topology_there_is_no_tree(self) -> None:
        _, _, manager = self.world()
        assert manager.snapshot() is None

    def test_a_tree_holds_for_ten_seconds(self) -> None:
        clock, cluster, manager = self.world()
        cluster.store(ClusterNetworkTopology).apply(topology())
        first = manager.snapshot()
        assert first is not None
        cluster.store(Node).apply(node("n2", spine="s2", block="b2", rack="r2"))
        clock.advance(PERIOD - 0.1)
        assert manager.snapshot() is first
        clock.advance(0.1)
        second = manager.snapshot()
        assert second is not None
        assert set(second.root.children) == {"s1", "s2"}

    def test_a_tree_is_made_again_only_when_it_would_differ(self) -> None:
        clock, cluster, manager = self.world()
        cluster.store(ClusterNetworkTopology).apply(topology())
        first = manager.snapshot()
        clock.advance(PERIOD)
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n1", "uid": "n1", "labels": LABELS}}))
        assert manager.snapshot() is first
        clock.advance(PERIOD)
        cluster.store(Node).apply(node("n1", spine="s2", block="b1", rack="r1"))
        second = manager.snapshot()
        assert second is not None
        assert outline(second) == {"s2": {"b1": {"r1": {"n1": {}}}}}

    @pytest.mark.parametrize("is_deleted", [True, False])
    def test_the_tree_before_stays_when_the_topology_is_gone_or_wrong(self, is_deleted: bool) -> None:
        clock, cluster, manager = self.world()
        store = cluster.store(ClusterNetworkTopology)
        store.apply(topology())
        first = manager.snapshot()
        if is_deleted:
            store.discard("default")
        else:
            store.apply(topology(LAYERS[0]))
        clock.advance(PERIOD)
        assert manager.snapshot() is first
