"""Scores of nodes near pods of the same selector."""

from collections.abc import Sequence

from koordpy.api.core import Node, Pod
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.cluster.network_topology.manager import TreeManager
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.coscheduling.topology.layouts import Layouts
from koordpy_plugins.scheduling.coscheduling.topology.selector_counts import SelectorCounts
from koordpy_plugins.scheduling.coscheduling.topology.selector_score import SelectorScore
from tests.unit.scheduling.worlds import framework, world

from .networks import Places, member, network, node, nodes_of

PLACES: Places = {
    "s1": {"b1": ["node-1", "node-8"], "b2": ["node-2", "node-7", "node-9"]},
    "s2": {"b3": ["node-3", "node-6"], "b4": ["node-4", "node-5"]},
}
THERE = [member(f"there-{i}", selector="x", nodeName=f"node-{i}") for i in (8, 7, 6)]


class Scene:
    """A cluster, and the score of its nodes."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod] = (), *, has_network: bool = True) -> None:
        cluster = world(nodes, pods)
        if has_network:
            cluster.store(ClusterNetworkTopology).apply(network())
        self.fw = framework(cluster)
        handle = Handle(cluster, network_topology=TreeManager(cluster, None))
        self.handle = handle
        self.score = SelectorScore(handle, cluster.shared(SelectorCounts), Layouts(handle))

    def raw(self, pod: Pod, names: Sequence[str]) -> dict[str, int] | None:
        """The places of nodes, None if PreScore skips."""
        state, nodes = self.fw.new_state(), self.handle.nodes.select(names)[0]
        if self.score.pre_score(state, pod, nodes).is_skip:
            return None
        return dict(zip(names, self.score.score_nodes(state, pod, nodes).tolist(), strict=True))


def test_nodes_below_switches_with_more_such_pods_and_fewer_candidates_come_first() -> None:
    scene = Scene(nodes_of(PLACES), THERE)
    names = ["node-1", "node-2", "node-3", "node-4", "node-5", "node-9"]
    assert scene.raw(member("new", selector="x"), names) == {
        "node-1": 0, "node-2": 1, "node-9": 2, "node-3": 3, "node-4": 4, "node-5": 5,
    }  # fmt: skip


def test_pods_of_other_selectors_do_not_count() -> None:
    scene = Scene(nodes_of(PLACES), THERE)
    assert scene.raw(member("new", selector="y"), ["node-4", "node-3"]) == {"node-3": 0, "node-4": 1}


def test_pods_that_a_what_if_has_placed_count() -> None:
    scene = Scene(nodes_of(PLACES))
    nodes = scene.handle.nodes.all().with_pods({"node-5": [member("there", selector="x")]})
    state, pod = scene.fw.new_state(), member("new", selector="x")
    scene.score.pre_score(state, pod, nodes)
    raw = dict(zip(nodes.names, scene.score.score_nodes(state, pod, nodes).tolist(), strict=True))
    assert sorted(raw, key=raw.__getitem__)[:2] == ["node-5", "node-4"]


def test_candidates_outside_the_tree_come_last_by_name() -> None:
    scene = Scene([node("b-lost", "", ""), node("a-lost", "", ""), *nodes_of(PLACES)], THERE)
    names = ["a-lost", "b-lost", "node-4"]
    assert scene.raw(member("new", selector="x"), names) == {"node-4": 0, "a-lost": 1, "b-lost": 2}


def test_pods_without_a_selector_and_clusters_without_a_network_are_not_scored() -> None:
    names = ["node-1", "node-2"]
    assert Scene(nodes_of(PLACES), THERE).raw(member("new"), names) is None
    assert Scene(nodes_of(PLACES), THERE, has_network=False).raw(member("new", selector="x"), names) is None
    scene = Scene(nodes_of(PLACES))
    assert scene.score.score_nodes(scene.fw.new_state(), member("new"), scene.handle.nodes.all()).max() == 0
