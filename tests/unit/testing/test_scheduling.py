"""The kit runs production code, and reports clearly what a test did not expect."""

import pytest

from koordpy.api.core import Pod
from koordpy.cluster.columns import PODS
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    Binding,
    Filter,
    FindOneNode,
    Permit,
    PlacementPlan,
    PlannedPod,
    Plugin,
    PreBind,
    PreFilter,
    Reserve,
    Score,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.testing.cluster import cluster
from koordpy.testing.objects import node, node_metric, pod
from koordpy.testing.scheduling import (
    AttemptFailed,
    Scheduling,
    assert_fits,
    assert_prefers,
    assert_refused,
)


class Cold(Plugin, Filter, Score, Reserve, Permit, PreBind):
    """Rejects hot nodes, prefers long names, counts its allocations."""

    name = "Cold"

    def __init__(self, *options: object) -> None:
        super().__init__(*options)  # type: ignore[arg-type]
        self.taken: list[str] = []

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.unschedulable("node(s) were hot") if "hot" in node.name else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(node.name)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.taken.append(pod.metadata.name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.taken.remove(pod.metadata.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status.wait(5) if pod.metadata.name == "installation" else SUCCESS

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        binding.annotations["cold"] = "yes"
        return SUCCESS


class Broken(Plugin, Filter):
    name = "Broken"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        raise RuntimeError("oh no")


def test_what_fits_what_is_refused_and_what_is_preferred() -> None:
    found = Scheduling(cluster(node("a"), node("bb"), node("hot")), Cold).find(pod("p"))
    assert_fits(found, "a", "bb")
    assert_refused(found, "hot", "were hot", by="Cold")
    assert_prefers(found, "bb", over="a")
    assert found.best == "bb"


def test_expectations_that_fail_say_why() -> None:
    found = Scheduling(cluster(node("a"), node("bb"), node("hot")), Cold).find(pod("p"))
    with pytest.raises(AssertionError, match=r"hot: node\(s\) were hot"):
        assert_fits(found, "a", "bb", "hot")
    with pytest.raises(AssertionError, match="but it fits"):
        assert_refused(found, "a", "were hot")
    with pytest.raises(AssertionError, match=r"expected a \(1\) before bb \(2\)"):
        assert_prefers(found, "a", over="bb")
    with pytest.raises(AssertionError, match="node hot has no score"):
        assert_prefers(found, "a", over="hot")


def test_a_plugin_that_raises_fails_the_test() -> None:
    with pytest.raises(AttemptFailed, match="oh no"):
        Scheduling(cluster(node("a")), Broken).find(pod("p"))


async def test_a_placed_pod_is_in_the_cluster_with_its_annotations() -> None:
    known = cluster(node("a", cpu=4))
    scheduling = Scheduling(known, Cold)
    placed = await scheduling.place(pod("p", cpu=3))
    assert (placed.node, placed.annotations) == ("a", {"cold": "yes"})
    bound = known.store(Pod).by_key("default/p")
    assert bound is not None
    assert (bound.spec.node_name, bound.metadata.annotations) == ("a", {"cold": "yes"})
    assert int(known.nodes.requested[:, PODS].sum()) == 1
    assert scheduling.plugin("Cold").taken == ["p"]  # type: ignore[attr-defined]


async def test_a_waiting_pod_is_rolled_back() -> None:
    known = cluster(node("a"))
    scheduling = Scheduling(known, Cold)
    placed = await scheduling.place(pod("installation"))
    assert (placed.node, placed.waits) == ("", {"Cold": 5})
    assert scheduling.plugin("Cold").taken == []  # type: ignore[attr-defined]
    assert int(known.nodes.requested[:, PODS].sum()) == 0


def test_in_tree_plugins_run_on_request() -> None:
    nodes = cluster(node("small", cpu=1), node("large"))
    assert_fits(Scheduling(nodes, Cold).find(pod("p", cpu=4)), "small", "large")
    assert_fits(Scheduling(nodes, Cold, in_tree=True).find(pod("p", cpu=4)), "large")


def test_installed_plugins_run_by_name_with_arguments() -> None:
    known = cluster(node("warm"), node("calm"), node_metric("warm", cpu="5"), node_metric("calm", cpu="1"))
    args = {"LoadAwareScheduling": {"usageThresholds": {"cpu": 50}}}
    found = Scheduling(known, "LoadAwareScheduling", args=args).find(pod("p"))
    assert_fits(found, "calm")
    assert_refused(found, "warm", "usage exceed threshold")


class Pairs(Plugin, PreFilter, FindOneNode):
    """Plans the pods `left` and `right` together."""

    name = "Pairs"
    asked = 0
    right = "b"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        return None, SUCCESS

    def find_one_node(
        self, state: CycleState, pod_: Pod, node_names: frozenset[str] | None
    ) -> tuple[str | PlacementPlan, Status]:
        self.asked += 1
        known = {each.metadata.name: each for each in (*self.handle.cluster.store(Pod), pod_)}
        where = {"left": "a", "right": self.right}
        plan = [PlannedPod(known[name], where[name]) for name in where if name in known]
        return PlacementPlan(plan), SUCCESS


async def test_a_plan_is_seen_and_followed_until_a_placement_fails() -> None:
    known = cluster(node("a"), node("b"), node("c"), pod("left"), pod("right"))
    scheduling = Scheduling(known, Pairs)
    pairs = scheduling.plugin("Pairs")
    assert isinstance(pairs, Pairs)
    left, right = (known.store(Pod).get("default", name) for name in ("left", "right"))
    assert left is not None
    assert right is not None
    found = scheduling.find(left)
    assert found.plan == {"default/left": "a", "default/right": "b"}
    assert_fits(found, "a")
    assert (await scheduling.place(left)).node == "a"
    pairs.right = "c"
    assert not (
        await scheduling.place(right, node="c")
    ).status.is_success  # b is planned; the plan is dropped
    assert (await scheduling.place(right)).node == "c"
    assert pairs.asked == 3
