"""Plans of FindOneNode beside kube-scheduler: its later calls for the planned pods get the planned nodes."""

import json
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import encode
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.cycle import plans
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface import (
    FindOneNode,
    PlacementPlan,
    PlannedPod,
    Plugin,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles.registry import Place, build, installed

from ..planner import JOB, Planner
from ..worlds import (
    Binder,
    bind_body,
    configuration,
    extender,
    filter_body,
    node,
    pod,
    pod_document,
    world,
)

NODES = ("a", "b", "c")


def member(name: str, job: str = "j", **metadata: Any) -> Pod:
    made = pod(name)
    made.metadata.labels = {JOB: job} if job else {}
    for key, value in metadata.items():
        setattr(made.metadata, key, value)
    return made


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    Planner.reset()
    yield
    Planner.reset()


class Caller:
    """kube-scheduler, with the three pods of a job."""

    def __init__(self, *plugins: type[Plugin], chooses: bool = False) -> None:
        self.cluster = world([node(name) for name in NODES])
        self.extender = extender(self.cluster, *(plugins or (Planner,)))
        if chooses:
            handle = Handle(self.cluster)
            own: list[type[Plugin]] = [Binder, *plugins]
            classes = dict(installed()) | {cls.name: cls for cls in own}
            profiles = build(
                configuration([cls.name for cls in plugins]),
                lambda _: handle,
                place=Place.EXTENDER,
                classes=classes,
            )
            self.extender = Extender(profiles, handle, node_choice="koordpy")
            for store in self.cluster.stores:
                store.synced = True
        for name in ("p1", "p2", "p3"):
            self.show(member(name))

    @property
    def planned(self) -> dict[str, str]:
        """The nodes of the planned pods, by name."""
        kept = {each.metadata.name: self.extender.plans.node_of(each) for each in self.cluster.store(Pod)}
        return {name: node_name for name, node_name in sorted(kept.items()) if node_name}

    def show(self, each: Pod | Node) -> None:
        self.cluster.store(type(each)).apply(each)

    def pod(self, name: str) -> Pod:
        found = self.cluster.store(Pod).get("default", name)
        assert found is not None
        return found

    def document(self, name: str) -> dict[str, Any]:
        return dict(json.loads(encode(self.pod(name))))

    def filter(self, name: str, nodes: Sequence[str] = NODES) -> list[str]:
        return list(self.answer(name, nodes).get("NodeNames") or [])

    def answer(self, name: str, nodes: Sequence[str] = NODES) -> dict[str, Any]:
        answer, _ = self.extender.filter(filter_body(self.document(name), nodes))
        return dict(json.loads(answer))

    async def bind(self, name: str, node_name: str) -> str:
        answer = await self.extender.bind(bind_body(self.document(name), node_name))
        return str(json.loads(answer).get("Error", ""))


async def test_the_pods_of_a_plan_are_tried_on_their_planned_nodes_without_another_call() -> None:
    caller = Caller()
    for name, node_name in (("p1", "a"), ("p3", "c"), ("p2", "b")):
        assert caller.filter(name) == [node_name]
        assert await caller.bind(name, node_name) == ""
    assert Planner.planned_for == ["p1"]
    assert len(caller.extender.plans) == 0


def test_nodes_outside_a_plan_name_the_plugin() -> None:
    caller = Caller()
    caller.filter("p1")
    refused = caller.answer("p2")["FailedAndUnresolvableNodes"]
    assert refused == dict.fromkeys(("a", "c"), "node(s) didn't satisfy plugin(s) [Planner]")


def test_a_plan_is_not_kept_of_an_attempt_that_finds_no_node() -> None:
    caller = Caller()
    Planner.refuses.add("p1")
    assert caller.filter("p1") == []
    assert caller.planned == {}
    assert caller.filter("p2", ["a", "c"]) == []  # b is planned, and no candidate
    assert caller.planned == {}


def test_a_what_if_neither_makes_nor_follows_a_plan() -> None:
    caller = Caller()
    whole = caller.extender.profiles.whole_of("")
    assert whole is not None
    outcome = whole.find_feasible(whole.new_state(), caller.pod("p1"), caller.cluster.nodes.all())
    assert list(outcome.kept.names) == ["a"]
    assert caller.planned == {}
    caller.filter("p1")
    Planner.order = ("c", "b", "a")
    outcome = whole.find_feasible(whole.new_state(), caller.pod("p1"), caller.cluster.nodes.all())
    assert list(outcome.kept.names) == ["c"]
    assert caller.filter("p1") == ["a"]


async def test_filters_that_run_again_at_bind_follow_the_plan() -> None:
    caller = Caller()
    caller.filter("p1")
    assert caller.filter("p2") == ["b"]
    Planner.order = ("c", "a", "b")
    caller.show(pod("other", node_name="b"))  # the node has changed since
    assert await caller.bind("p2", "b") == ""
    assert Planner.planned_for == ["p1"]
    assert caller.planned == {"p1": "a", "p3": "c"}


async def test_a_plan_leaves_out_what_is_on_its_way_to_a_node() -> None:
    caller = Caller()
    caller.extender.nodes.assume(caller.pod("p2"), "c")
    caller.filter("p1")
    assert caller.planned == {"p1": "a", "p3": "c"}


class Signing(Planner, SignPlugin):
    """Signs pods by their job."""

    name = "Signing"

    def sign_pod(self, pod: Pod) -> Hashable | None:
        return pod.metadata.labels.get(JOB, "")


def test_no_ranking_is_made_of_planned_pods_where_koordpy_chooses_the_node() -> None:
    caller = Caller(Signing, chooses=True)
    assert [caller.filter(name) for name in ("p1", "p2", "p3")] == [["a"], ["b"], ["c"]]
    caller.show(member("p4"))
    caller.show(member("p5"))
    Planner.order = ("c", "b", "a", "a", "c")
    assert [caller.filter(name) for name in ("p4", "p5")] == [["a"], ["c"]]
    assert set(Planner.planned_for) == {"p1", "p4"}


class TestDropped:
    """A plan becomes invalid: the remaining pods are planned again."""

    @pytest.fixture
    def caller(self) -> Caller:
        caller = Caller()
        assert caller.filter("p1") == ["a"]
        assert caller.planned == {"p1": "a", "p2": "b", "p3": "c"}
        Planner.order = ("c", "a", "b")
        return caller

    def test_when_a_planned_node_refuses_its_pod(self, caller: Caller) -> None:
        Planner.refuses.add("p2")
        assert caller.filter("p2") == []
        assert caller.planned == {}
        assert caller.filter("p3") == ["b"]
        assert caller.planned == {"p1": "c", "p2": "a", "p3": "b"}

    async def test_when_a_placement_fails(self, caller: Caller) -> None:
        Planner.fails.add("p1")
        assert await caller.bind("p1", "a") == "Planner: taken"
        assert caller.planned == {}

    async def test_when_a_planned_pod_is_bound_elsewhere(self, caller: Caller) -> None:
        elsewhere = caller.pod("p2")
        caller.show(
            msgspec.structs.replace(elsewhere, spec=msgspec.structs.replace(elsewhere.spec, node_name="c"))
        )
        assert caller.planned == {}
        assert caller.filter("p1") == ["c"]
        assert caller.planned == {"p1": "c", "p3": "a"}

    @pytest.mark.parametrize("how", ["deleted", "ended", "being deleted"])
    def test_when_a_planned_pod_goes(self, caller: Caller, how: str) -> None:
        gone = caller.pod("p2")
        if how == "deleted":
            caller.cluster.store(Pod).discard("default/p2")
        elif how == "ended":
            status = msgspec.structs.replace(gone.status, phase="Failed")
            caller.show(msgspec.structs.replace(gone, status=status))
        else:
            meta = msgspec.structs.replace(gone.metadata, deletion_timestamp="2026-03-01T12:00:00Z")
            caller.show(msgspec.structs.replace(gone, metadata=meta))
        assert len(caller.extender.plans) == 0

    def test_when_a_planned_node_is_deleted(self, caller: Caller) -> None:
        caller.cluster.store(Node).discard("c")
        assert caller.planned == {}

    def test_when_the_planned_node_is_no_candidate(self, caller: Caller) -> None:
        assert caller.filter("p2", ["a", "c"]) == ["a"]
        assert Planner.planned_for == ["p1", "p2"]

    def test_when_pre_filter_leaves_other_nodes(self, caller: Caller) -> None:
        Planner.allows = frozenset("ac")
        assert caller.filter("p2") == ["a"]
        assert caller.planned == {"p1": "c", "p2": "a", "p3": "b"}

    def test_when_it_is_old(self, caller: Caller) -> None:
        assert isinstance(caller.extender.clock, FakeClock)
        caller.extender.clock.advance(plans.KEPT_SECONDS + 1)
        assert caller.filter("p2") == ["a"]
        caller.extender.clock.advance(plans.KEPT_SECONDS + 1)
        caller.show(member("alone", ""))
        assert caller.filter("alone") == ["a", "b", "c"]
        assert len(caller.extender.plans) == 0


def test_what_is_bound_on_its_planned_node_leaves_the_others_planned() -> None:
    caller = Caller()
    caller.filter("p1")
    bound = caller.pod("p1")
    caller.show(msgspec.structs.replace(bound, spec=msgspec.structs.replace(bound.spec, node_name="a")))
    assert caller.planned == {"p2": "b", "p3": "c"}
    assert caller.filter("p2") == ["b"]
    assert Planner.planned_for == ["p1"]


def test_the_oldest_plans_go_when_too_many_pods_are_planned() -> None:
    caller = Caller()
    few = plans.Plans(caller.extender.profiles.frameworks.values(), caller.extender.handle, most_pods=4)
    caller.extender.plans = caller.extender._filtering._plans = few
    for name in ("q1", "q2"):
        caller.show(member(name, "k"))
    caller.filter("p1")
    assert caller.planned == {"p1": "a", "p2": "b", "p3": "c"}
    caller.filter("q1")
    assert caller.planned == {"q1": "a", "q2": "b"}
    for number in range(3, 6):
        caller.show(member(f"q{number}", "k"))
    Planner.order = ("a", "b", "c", "a", "b")
    caller.cluster.store(Node).discard("b")
    assert caller.filter("q1", ["a", "c"]) == ["a"]  # a plan for five pods, too many to be kept
    assert caller.planned == {}


def test_plans_of_several_jobs_hold_side_by_side() -> None:
    caller = Caller()
    caller.show(member("q1", "k"))
    assert caller.filter("p1") == caller.filter("q1") == ["a"]
    assert caller.planned == {"p1": "a", "p2": "b", "p3": "c", "q1": "a"}


class Wrong(Plugin, FindOneNode):
    """Returns impossible plans."""

    name = "Wrong"

    def find_one_node(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[str | PlacementPlan, Status]:
        other = member("other")
        if pod.metadata.name == "p1":
            return PlacementPlan([PlannedPod(other, "a")]), SUCCESS
        node_name = "" if pod.metadata.name == "p2" else "a"
        return PlacementPlan([PlannedPod(pod, "a"), PlannedPod(other, node_name)] * 2), SUCCESS


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("p1", 'FindOneNodePlugin "Wrong" succeeded but produced no node for pod default/p1'),
        ("p2", "placement plan: no node for pod default/other"),
        ("p3", "placement plan: pod default/p3 is planned twice"),
    ],
)
def test_a_wrong_plan_is_an_error_of_the_attempt(name: str, message: str) -> None:
    caller = Caller(Wrong)
    assert message in caller.answer(name)["Error"]
    assert caller.planned == {}


def test_nothing_is_followed_without_a_plugin_that_plans() -> None:
    cluster = world([node("a")])
    made = extender(cluster)
    answer, _ = made.filter(filter_body(pod_document("p"), ["a"]))
    assert json.loads(answer)["NodeNames"] == ["a"]
    assert not made.plans._used
