"""How many members each node holds: found by bisection on all nodes, and the same one by one."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Filter, Plugin, PreFilter
from koordpy.scheduling.interface.cycle_state import NOMINATED_PODS_TO_IGNORE, PLACED, CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import PreFilterOutcome
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy_plugins.scheduling.coscheduling.topology.slots import SlotProbe, Slots
from koordpy_plugins.scheduling.stock.interpodaffinity.plugin import InterPodAffinity
from koordpy_plugins.scheduling.stock.nodeaffinity.plugin import NodeAffinity
from koordpy_plugins.scheduling.stock.nodeports.plugin import NodePorts
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from koordpy_plugins.scheduling.stock.podtopologyspread.plugin import PodTopologySpread
from tests.unit.scheduling.worlds import framework, world

from .networks import member, node

STOCK = (NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity)


def probe(fw: Framework, members: Sequence[Pod], *, one_by_one: bool = False) -> Slots:
    nodes = fw.handle.nodes.all()

    def begin(pod: Pod) -> tuple[CycleState, PreFilterOutcome]:
        state = fw.new_state()
        state.write(NOMINATED_PODS_TO_IGNORE, frozenset(each.metadata.uid for each in members))
        return state, fw.run_pre_filter(state, pod, nodes)

    return SlotProbe(fw, members, nodes, begin, one_by_one=one_by_one).run()


def numbers(found: Slots) -> dict[str, int]:
    return dict(zip(found.nodes.names, found.numbers.tolist(), strict=True))


def placed(name: str, node_name: str, cpu: str, **labels: str) -> Pod:
    pod = member(name, cpu, nodeName=node_name)
    pod.metadata.labels.clear()
    pod.metadata.labels.update(labels)
    return pod


def test_each_node_holds_as_many_members_as_its_free_resources_suffice_for() -> None:
    nodes = [node("n1", "s", "b", "4"), node("n2", "s", "b", "16"), node("n3", "s", "b", "1")]
    fw = framework(world(nodes, [placed("there", "n2", "9")]), *STOCK)
    found = probe(fw, [member(f"m{i}", "2") for i in range(4)])
    assert numbers(found) == {"n1": 2, "n2": 3, "n3": 0}
    assert {name: (why.code, why.reasons) for name, why in found.refusals.items()} == {
        "n1": (Code.UNSCHEDULABLE, ("Insufficient cpu",)),
        "n2": (Code.UNSCHEDULABLE, ("Insufficient cpu",)),
        "n3": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Insufficient cpu",)),
    }


def test_each_member_is_checked_with_its_own_requests() -> None:
    fw = framework(world([node("n1", "s", "b", "8")]), *STOCK)
    leader, workers = member("a", "6"), [member(f"w{i}", "1") for i in range(4)]
    assert numbers(probe(fw, [leader, *workers])) == {"n1": 3}
    assert numbers(probe(fw, [*workers, leader])) == {"n1": 4}


def test_a_host_port_is_there_once() -> None:
    fw = framework(world([node("n1", "s", "b"), node("n2", "s", "b")]), *STOCK)
    members = [member(f"m{i}", ports=[{"hostPort": 8080}]) for i in range(2)]
    assert numbers(probe(fw, members)) == {"n1": 1, "n2": 1}


def test_members_that_stay_apart_get_one_slot_on_each_node() -> None:
    terms = [{"labelSelector": {"matchLabels": {"app": "gang"}}, "topologyKey": "host"}]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    nodes = [node("n1", "s", "b"), node("n2", "s", "b")]
    for each in nodes:
        each.metadata.labels["host"] = each.metadata.name
    fw = framework(world(nodes), *STOCK)
    assert numbers(probe(fw, [member(f"m{i}", affinity=apart) for i in range(3)])) == {"n1": 1, "n2": 1}


def test_nominations_of_the_members_themselves_do_not_count() -> None:
    cluster = world([node("n1", "s", "b", "4")])
    members = [member(f"m{i}", "2") for i in range(2)]
    fw = framework(cluster, *STOCK)
    for each in members:
        fw.handle.nominator.add(each, "n1")
    assert numbers(probe(fw, members)) == {"n1": 2}
    fw.handle.nominator.add(placed("other", "", "3"), "n1")
    assert numbers(probe(fw, members)) == {"n1": 0}


class Counting(Plugin, PreFilter):
    """Follows the pods of an attempt, for nothing that Filter asks."""

    name = "Counting"
    added = 0

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        return None, SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        Counting.added += 1
        return SUCCESS


def test_plugins_that_do_not_filter_are_not_told_of_every_member_on_every_node() -> None:
    fw = framework(world([node("n1", "s", "b"), node("n2", "s", "b")]), NodeResourcesFit, Counting)
    Counting.added = 0
    assert numbers(probe(fw, [member(f"m{i}") for i in range(5)])) == {"n1": 5, "n2": 5}
    assert Counting.added == 0


class Broken(Plugin, Filter):
    """Fails on one node."""

    name = "Broken"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.failed("disk on fire") if node.name == "n2" else SUCCESS


def test_a_plugin_that_fails_on_a_node_fails_the_attempt() -> None:
    fw = framework(world([node("n1", "s", "b"), node("n2", "s", "b")]), Broken)
    error = probe(fw, [member("m0")]).error
    assert error is not None
    assert "disk on fire" in error.message


cpus = st.sampled_from(["500m", "1", "2", "3"])
shapes = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.sampled_from([{"spine": "s1"}, {"block": "b2"}]),
        "ports": st.sampled_from([[{"hostPort": 80}], [{"hostPort": 81}]]),
        "priority": st.sampled_from([0, 10]),
        "topologySpreadConstraints": st.just(
            [
                {
                    "maxSkew": 1,
                    "topologyKey": "block",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": "gang"}},
                }
            ]
        ),
    },
)
plain = st.fixed_dictionaries({}, optional={"nodeSelector": st.just({"spine": "s1"})})


@st.composite
def members_of(draw: st.DrawFn, shapes: st.SearchStrategy[dict[str, Any]]) -> list[Pod]:
    found: list[Pod] = []
    for _ in range(draw(st.integers(1, 3))):
        cpu, shape = draw(cpus), draw(shapes)
        count = draw(st.integers(1, 5))
        found += [member(f"m{len(found) + i:02}", cpu, **dict(shape)) for i in range(count)]
    return found


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes: list[Node] = []
    pods: list[Pod] = []
    for i in range(draw(st.integers(1, 5))):
        spine, block = draw(st.sampled_from([("s1", "b1"), ("s1", "b2"), ("s2", "b3")]))
        nodes.append(
            node(f"n{i}", spine, block, draw(st.sampled_from(["2", "4", "16"])), str(draw(st.integers(1, 6))))
        )
        pods += [placed(f"p{i}-{j}", f"n{i}", draw(cpus)) for j in range(draw(st.integers(0, 2)))]
    return world(nodes, pods)


@pytest.mark.parametrize("kind", [plain, shapes], ids=["plain", "tracking"])
@settings(deadline=None)
@given(st.data())
def test_bisection_finds_what_adding_one_by_one_finds(
    kind: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    fw = framework(data.draw(clusters()), *STOCK)
    members = data.draw(members_of(kind))
    if data.draw(st.booleans()):
        nominated = member("other", data.draw(cpus), priority=data.draw(st.sampled_from([0, 10])))
        fw.handle.nominator.add(nominated, "n0")
    quick, slow = probe(fw, members), probe(fw, members, one_by_one=True)
    assert numbers(quick) == numbers(slow)
    assert quick.refusals == slow.refusals
    assert quick.refusals.keys() == {name for name, held in numbers(quick).items() if held < len(members)}


class TwoOfEach(Plugin, Filter):
    """Lets two pods onto a node, by a count of its own as LoadAwareScheduling has."""

    name = "TwoOfEach"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        before = len((state.read(PLACED) or {}).get(node.name, ()))
        return SUCCESS if before < 2 else Status.unschedulable("two are enough")


@pytest.mark.parametrize("one_by_one", [False, True])
def test_plugins_with_sums_of_their_own_see_the_members_before(one_by_one: bool) -> None:
    fw = framework(world([node("n1", "s", "b", "1"), node("n2", "s", "b", "16")]), *STOCK, TwoOfEach)
    found = probe(fw, [member(f"m{i}", "1") for i in range(4)], one_by_one=one_by_one)
    assert numbers(found) == {"n1": 1, "n2": 2}
