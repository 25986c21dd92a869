"""FindOneNode and PreFilter: the plan for a gang, and that members keep to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.gang.topology_spec import GangTopologySpec
from koordpy.cluster.network_topology.tree import Tree
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import NOMINATED_PODS_TO_IGNORE, PLACED
from koordpy.scheduling.interface.diagnosis import existing_diagnosis
from koordpy.scheduling.interface.plan import PlacementPlan
from koordpy.scheduling.interface.status import Code, Status
from koordpy_plugins.scheduling.coscheduling.topology.layouts import Layouts
from koordpy_plugins.scheduling.coscheduling.topology.placement import NetworkPlacement
from koordpy_plugins.scheduling.coscheduling.topology.selector_counts import SelectorCounts
from koordpy_plugins.scheduling.coscheduling.topology.solver import MOST_SHOWN
from koordpy_plugins.scheduling.stock.nodeaffinity.plugin import NodeAffinity
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from tests.unit.scheduling.worlds import framework, world

from .networks import BLOCK, KOORDINATORS, NODE, SPINE, member, node, nodes_of, rules, tree_of


@dataclass
class Round:
    """A group that is being scheduled."""

    topology_spec: GangTopologySpec | None
    topology_tree: Tree | None
    attempted: set[str] = field(default_factory=lambda: {"ns/first"})
    failed_message: str = ""
    planned_nodes: Mapping[str, str] | None = None


class Scene:
    """A cluster and the plans for its gangs."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod] = ()) -> None:
        self.fw: Framework = framework(world(nodes, pods), NodeAffinity, NodeResourcesFit)
        handle = self.fw.handle
        self.tree = tree_of(nodes)
        self.placement = NetworkPlacement(handle, handle.cluster.shared(SelectorCounts), Layouts(handle))
        self.state = self.fw.new_state()

    def plan(
        self, spec: GangTopologySpec, members: Sequence[Pod], names: frozenset[str] | None = None
    ) -> tuple[PlacementPlan | None, Status]:
        return self.placement.find_one_node(Round(spec, self.tree), members, self.state, names)

    def nodes(self, spec: GangTopologySpec, members: Sequence[Pod]) -> list[str]:
        """The planned nodes, in the order of the members' names."""
        plan, status = self.plan(spec, members)
        assert plan is not None, status.message
        return [each.node_name for each in plan.pods]


def gang(count: int, cpu: str = "16", **given: str) -> list[Pod]:
    return [member(f"m{i}", cpu, **given) for i in range(count)]


def test_a_gang_of_four_takes_one_spine_block_by_block() -> None:
    spec = rules((SPINE, "PreferGather"), (BLOCK, "PreferGather"))
    assert Scene(nodes_of(KOORDINATORS)).nodes(spec, gang(4)) == ["node-1", "node-8", "node-2", "node-7"]


def test_a_gang_of_two_that_must_share_a_block_takes_the_first() -> None:
    spec = rules((BLOCK, "MustGather"), (SPINE, "MustGather"))
    assert Scene(nodes_of(KOORDINATORS)).nodes(spec, gang(2)) == ["node-1", "node-8"]


def test_a_gang_that_no_block_has_room_for_gets_no_plan_and_a_reason() -> None:
    scene = Scene(nodes_of(KOORDINATORS))
    plan, status = scene.plan(rules((BLOCK, "MustGather", 2)), gang(3))
    assert plan is None
    assert status.code is Code.UNSCHEDULABLE
    assert status.message == (
        "no candidate topology nodes can accommodate job, desiredOfferSlot: 3, "
        "topology topologyNode BlockLayer/b1: 2;topology topologyNode BlockLayer/b2: 2;"
        "topology topologyNode BlockLayer/b3: 2;topology topologyNode BlockLayer/b4: 2, "
        "0/8 nodes are available: 8 Insufficient cpu.; podCountMultiple constraints: BlockLayer=2"
    )
    diagnosis = existing_diagnosis(scene.state)
    assert diagnosis is not None
    assert diagnosis.schedule is not None
    assert diagnosis.topology_key_to_explain == BLOCK
    assert diagnosis.schedule.is_job
    assert set(diagnosis.schedule.node_offer_slot.values()) == {1}
    assert len(diagnosis.schedule.node_to_status) == 8


def test_a_message_names_a_hundred_members_of_a_layer_at_most() -> None:
    scene = Scene([node(f"n{i}", "s", f"b{i}", "1") for i in range(MOST_SHOWN + 7)])
    _, status = scene.plan(rules((BLOCK, "MustGather")), gang(2))
    assert status.message.count("topologyNode BlockLayer/") == MOST_SHOWN
    assert ";and 7 more, " in status.message


def test_nodes_outside_the_tree_get_no_member() -> None:
    nodes = [node("lost", "", ""), node("n1", "s", "b", "4"), node("n2", "s", "b", "4")]
    assert Scene(nodes).nodes(rules(), gang(2, "4")) == ["n1", "n2"]
    _, status = Scene(nodes).plan(rules(), gang(3, "4"))
    assert "desiredOfferSlot: 3, topology topologyNode ClusterTopologyLayer/: 2, " in status.message


def test_only_the_nodes_that_prefilter_left_are_taken() -> None:
    scene = Scene(nodes_of(KOORDINATORS))
    plan, _ = scene.plan(rules(), gang(2), frozenset({"node-3", "node-4"}))
    assert plan is not None
    assert sorted(plan.node_of.values()) == ["node-3", "node-4"]
    _, status = scene.plan(rules(), gang(2), frozenset({"gone", "node-3"}))
    assert (status.code, status.message) == (Code.ERROR, 'nodeinfo not found for node name "gone"')


def test_pods_that_a_what_if_has_placed_take_room() -> None:
    scene = Scene(nodes_of(KOORDINATORS))
    scene.state.write(PLACED, {"node-1": [member("other", "16")]})
    assert scene.nodes(rules((BLOCK, "MustGather")), gang(2)) == ["node-2", "node-7"]


def test_nominations_of_the_group_are_ignored_in_the_rest_of_the_attempt() -> None:
    scene = Scene(nodes_of(KOORDINATORS))
    scene.plan(rules(), gang(2))
    assert scene.state.read(NOMINATED_PODS_TO_IGNORE) == {"uid-m0", "uid-m1"}


def test_members_go_near_pods_of_the_same_selector() -> None:
    there = member("there", "1", selector="x", nodeName="node-5")
    scene = Scene(nodes_of(KOORDINATORS), [there])
    assert scene.nodes(rules((SPINE, "MustGather")), gang(2, "15", selector="x")) == ["node-5", "node-4"]
    assert scene.nodes(rules((SPINE, "MustGather")), gang(2, "15", selector="y")) == ["node-1", "node-8"]


def test_without_a_round_a_requirement_or_after_a_failure_nothing_is_planned() -> None:
    scene = Scene(nodes_of(KOORDINATORS))
    for context in (None, Round(None, scene.tree), Round(rules(), scene.tree, failed_message="no room")):
        assert scene.placement.find_one_node(context, gang(2), scene.state, None)[1].is_skip
        assert scene.placement.pre_filter(context, scene.state, gang(1)[0]) == (None, Status())


def test_the_first_member_needs_pending_pods_and_a_network() -> None:
    scene = Scene(nodes_of(KOORDINATORS))
    _, status = scene.plan(rules(), [])
    assert (status.code, status.message) == (Code.ERROR, "no pending pods")
    _, status = scene.placement.find_one_node(Round(rules(), None), gang(1), scene.state, None)
    assert (status.code, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "no cluster network topology",
    )


def test_later_members_go_to_their_planned_nodes_only() -> None:
    scene = Scene(nodes_of(KOORDINATORS))
    members = gang(2)
    context = Round(rules((BLOCK, "MustGather")), scene.tree)
    assert scene.placement.pre_filter(context, scene.state, members[0]) == (None, Status())
    scene.placement.find_one_node(context, members, scene.state, None)
    context.attempted.add("ns/m1")
    assert scene.placement.pre_filter(context, scene.state, members[1])[0] == {"node-8"}
    assert scene.placement.find_one_node(context, members, scene.state, None)[1].is_skip
    _, status = scene.placement.pre_filter(context, scene.state, member("late"))
    assert (status.code, status.message) == (Code.ERROR, "no planned pods")
    context.planned_nodes = None
    _, status = scene.placement.find_one_node(context, members, scene.state, None)
    assert (status.code, status.message) == (Code.ERROR, "no planned pods")


cpus = st.sampled_from(["2", "4", "8", "16"])


@st.composite
def networks(draw: st.DrawFn) -> list[Node]:
    blocks = [("s1", "b1"), ("s1", "b2"), ("s2", "b3"), ("s2", "b4"), ("", "")]
    return [
        node(f"n{i}", *draw(st.sampled_from(blocks)), draw(cpus), str(draw(st.integers(1, 4))))
        for i in range(draw(st.integers(1, 9)))
    ]


@settings(deadline=None)
@given(
    networks(),
    st.lists(cpus, min_size=1, max_size=8),
    st.sampled_from(["", SPINE, BLOCK, NODE]),
    st.lists(st.integers(1, 2), min_size=3, max_size=3),
    st.integers(0, 1 << 30),
)
def test_a_plan_keeps_to_the_layer_the_multiples_and_the_room_in_any_order_of_nodes_and_pods(
    nodes: list[Node], requests: list[str], must: str, factors: list[int], seed: int
) -> None:
    members = [member(f"m{i}", requests[0], index=str(9 - i)) for i in range(len(requests))]
    units = dict(zip((NODE, BLOCK, SPINE), factors, strict=True))
    units = {
        SPINE: units[NODE] * units[BLOCK] * units[SPINE],
        BLOCK: units[NODE] * units[BLOCK],
        NODE: units[NODE],
    }
    spec = rules(
        *((layer, "MustGather" if layer == must else "PreferGather", n) for layer, n in units.items())
    )
    plan, status = Scene(nodes).plan(spec, members)
    shuffled_nodes, shuffled = list(nodes), list(members)
    Random(seed).shuffle(shuffled_nodes)
    Random(seed).shuffle(shuffled)
    again, status_again = Scene(shuffled_nodes).plan(spec, shuffled)
    assert status.message == status_again.message
    if plan is None:
        assert again is None
        return
    assert again is not None
    assert plan.node_of == again.node_of
    assert plan.node_of.keys() == {pod.metadata.uid for pod in members}
    assert [each.pod.metadata.name for each in plan.pods] == sorted(pod.metadata.name for pod in members)
    by_name = {each.metadata.name: each for each in nodes}
    on = [by_name[name] for name in plan.node_of.values()]
    layers = {
        SPINE: [each.metadata.labels["spine"] for each in on],
        BLOCK: [each.metadata.labels["block"] for each in on],
        NODE: [each.metadata.name for each in on],
    }
    assert len(set(layers.get(must, [""]))) == 1
    # As in Koordinator, multiples of layers above the lowest member with all pods below it do not count.
    counting = [
        NODE,
        *(layer for layer, below in ((BLOCK, NODE), (SPINE, BLOCK)) if len(set(layers[below])) > 1),
    ]
    for layer, unit in units.items():
        assert layer not in counting or all(layers[layer].count(name) % unit == 0 for name in layers[layer])
    for name in set(layers[NODE]):
        status_of = by_name[name].status.allocatable
        assert layers[NODE].count(name) * int(requests[0]) <= int(str(status_of["cpu"]))
        assert layers[NODE].count(name) <= int(str(status_of["pods"]))
