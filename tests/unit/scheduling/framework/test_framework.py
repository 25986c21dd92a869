import numpy as np
import pytest

from koordpy.api.core import Pod
from koordpy.api.plugin import NoArgs
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import (
    AfterPostFilter,
    BeforeFilter,
    BeforePreFilter,
    BeforeScore,
    Filter,
    Plugin,
    PostFilter,
    PreFilter,
    PreScore,
    Reserve,
    Score,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.gates import scheduling_gates
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict

from ..worlds import framework, node, pod, world


class ByName(Plugin, Filter):
    """Rejects the nodes whose name contains a letter."""

    letter = "b"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.unschedulable(f"has {self.letter}") if self.letter in node.name else SUCCESS


class NoB(ByName):
    name = "NoB"


class NoC(ByName):
    name = "NoC"
    letter = "c"


class Raises(Plugin, Filter):
    name = "Raises"

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        raise RuntimeError("boom")


class Only(Plugin, PreFilter, Filter):
    name = "Only"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        return frozenset(("a", "c")), SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        return PASS


class OnlyB(Only):
    name = "OnlyB"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        return frozenset(("b",)), SUCCESS


def outcome_of(fw: Framework, incoming: Pod | None = None) -> FilterOutcome:
    return fw.find_feasible(fw.new_state(), incoming or pod("p"), fw.handle.nodes.all())


def abc() -> list[str]:
    return ["a", "b", "c", "bc"]


def test_the_first_refusal_of_a_node_counts() -> None:
    fw = framework(world(map(node, abc())), NoB, NoC)
    outcome = outcome_of(fw)
    assert {outcome.nodes.names[i]: outcome.status(i).plugin for i in range(4)} == {
        "a": "", "b": "NoB", "c": "NoC", "bc": "NoB",
    }  # fmt: skip
    assert outcome.kept.names == ["a"]


def test_failed_groups_nodes_by_reason() -> None:
    fw = framework(world(map(node, abc())), NoB, NoC)
    assert {status.message: sorted(names) for status, names in outcome_of(fw).failed()} == {
        "has b": ["b", "bc"],
        "has c": ["c"],
    }


def test_the_message_counts_reasons_as_kube_scheduler_does() -> None:
    fw = framework(world(map(node, ["b", "bc", "c"])), NoB, NoC)
    assert outcome_of(fw).message() == "0/3 nodes are available: 1 has c, 2 has b."


def test_a_plugin_that_raises_fails_the_attempt_and_is_named() -> None:
    error = outcome_of(framework(world([node("a")]), Raises)).error
    assert error is not None
    assert error.code is Code.ERROR
    assert error.plugin == "Raises"
    assert "boom" in error.message


def test_a_rejected_node_is_not_filtered_again() -> None:
    class BreaksOnB(Plugin, Filter):
        name = "BreaksOnB"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            assert "b" not in node.name
            return SUCCESS

    assert outcome_of(framework(world(map(node, abc())), NoB, BreaksOnB)).error is None


def test_pre_filter_restricts_the_nodes_that_are_filtered() -> None:
    outcome = outcome_of(framework(world(map(node, abc())), Only))
    assert sorted(outcome.nodes.names) == ["a", "c"]
    assert sorted(outcome.absent) == ["b", "bc"]
    assert outcome.absent_status.reasons == ("node(s) didn't satisfy plugin(s) [Only]",)


def test_pre_filters_that_exclude_each_other_reject_the_pod() -> None:
    status = outcome_of(framework(world(map(node, abc())), Only, OnlyB)).prefilter
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "node(s) didn't satisfy plugin(s) [Only OnlyB] simultaneously"


def test_skip_in_pre_filter_skips_the_filter_too() -> None:
    class Skips(Raises, PreFilter):
        name = "Skips"

        def pre_filter(
            self, state: CycleState, pod: Pod, nodes: NodeSet
        ) -> tuple[frozenset[str] | None, Status]:
            return None, Status.skip()

    assert outcome_of(framework(world([node("a")]), Skips)).feasible.all()


def test_unschedulable_in_pre_filter_lets_the_others_run_and_unresolvable_does_not() -> None:
    ran: list[str] = []

    def refusing(label: str, status: Status) -> type[Plugin]:
        def pre_filter(
            self: Plugin, state: CycleState, pod: Pod, nodes: NodeSet
        ) -> tuple[frozenset[str] | None, Status]:
            ran.append(label)
            return None, status

        return type(label, (Plugin, PreFilter), {"name": label, "pre_filter": pre_filter})

    soft, hard = refusing("Soft", Status.unschedulable("s")), refusing("Hard", Status.unresolvable("h"))
    never = refusing("Never", SUCCESS)
    status = outcome_of(framework(world([node("a")]), soft, hard, never)).prefilter
    assert (status.plugin, ran) == ("Hard", ["Soft", "Hard"])


def test_a_transformed_pod_is_seen_by_pre_filter_but_not_by_filter() -> None:
    seen: list[str] = []

    class Renames(Plugin, BeforePreFilter, PreFilter, Filter):
        name = "Renames"

        def before_pre_filter(self, state: CycleState, pod_: Pod) -> tuple[Pod | None, Status]:
            return pod("other"), SUCCESS

        def pre_filter(
            self, state: CycleState, pod: Pod, nodes: NodeSet
        ) -> tuple[frozenset[str] | None, Status]:
            seen.append(pod.metadata.name)
            return None, SUCCESS

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            seen.append(pod.metadata.name)
            return SUCCESS

    outcome_of(framework(world([node("a")]), Renames))
    assert seen == ["other", "p"]


def test_before_filter_may_show_other_nodes() -> None:
    class Crowds(Plugin, BeforeFilter):
        name = "Crowds"

        def before_filter(self, state: CycleState, pod_: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Verdict]:
            return pod_, nodes.with_pods({"a": [pod("ghost", cpu="6")]}), PASS

    class Roomy(Plugin, Filter):
        name = "Roomy"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            free = node.allocatable("cpu") - node.requested("cpu")
            return SUCCESS if free >= 4000 else Status.unschedulable(f"{len(node.pods)} pods")

    cluster = world([node("a"), node("b")])
    outcome = outcome_of(framework(cluster, Crowds, Roomy))
    assert outcome.kept.names == ["b"]
    assert outcome.status(outcome.nodes.names.index("a")).message == "1 pods"
    assert not cluster.nodes.requested.any()


class Fits(Plugin, Filter):
    name = "Fits"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        free = node.allocatable("cpu") - node.requested("cpu")
        return SUCCESS if free >= 4000 else Status.unschedulable("no cpu")


@pytest.mark.parametrize(("priority", "fits"), [(5, False), (4, True), (6, False)])
def test_nominated_pods_of_at_least_the_same_priority_count(priority: int, fits: bool) -> None:
    cluster = world([node("a")])
    fw = framework(cluster, Fits)
    cluster.store(Pod).apply(pod("n", cpu="6", priority=priority, status={"nominatedNodeName": "a"}))
    assert outcome_of(fw, pod("p", priority=5)).feasible.tolist() == [fits]


def test_a_pods_own_nomination_does_not_count() -> None:
    cluster = world([node("a")])
    fw = framework(cluster, Fits)
    incoming = pod("n", cpu="6", priority=5, status={"nominatedNodeName": "a"})
    cluster.store(Pod).apply(incoming)
    assert outcome_of(fw, incoming).feasible.all()


def test_a_node_must_also_pass_without_its_nominated_pods() -> None:
    class NeedsCompany(Plugin, Filter):
        name = "NeedsCompany"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            return SUCCESS if node.pods else Status.unschedulable("lonely")

    cluster = world([node("a")])
    fw = framework(cluster, NeedsCompany)
    cluster.store(Pod).apply(pod("n", priority=5, status={"nominatedNodeName": "a"}))
    assert outcome_of(fw).status(0).message == "lonely"


# --- scores --------------------------------------------------------------------------------------


class Length(Plugin, Score):
    name = "Length"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(node.name)


def scores_of(fw: Framework) -> tuple[dict[str, int], Status]:
    scores, status = fw.run_score(fw.new_state(), pod("p"), fw.handle.nodes.all())
    if scores is None:
        return {}, status
    return dict(zip(scores.nodes.names, scores.total.tolist(), strict=True)), status


def test_scores_are_multiplied_by_their_weights() -> None:
    fw = framework(world(map(node, abc())), Length, score={"enabled": [{"name": "Length", "weight": 5}]})
    assert scores_of(fw)[0] == {"a": 5, "b": 5, "c": 5, "bc": 10}


def test_a_score_outside_0_to_100_fails_the_attempt() -> None:
    class TooMuch(Length):
        name = "TooMuch"

        def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
            return scores + 100

    assert "invalid score 101" in scores_of(framework(world([node("a")]), TooMuch))[1].message


def test_skip_in_pre_score_skips_the_score() -> None:
    class Skips(Length, PreScore):
        name = "Skips"

        def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
            return Status.skip()

    assert scores_of(framework(world([node("aa")]), Skips))[0] == {"aa": 0}


def test_before_score_may_drop_nodes() -> None:
    class Drops(Length, BeforeScore):
        name = "Drops"

        def before_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Status]:
            return pod, nodes.subset(np.array([name != "b" for name in nodes.names])), SUCCESS

    assert set(scores_of(framework(world(map(node, abc())), Drops))[0]) == {"a", "c", "bc"}


# --- the end of a cycle --------------------------------------------------------------------------


def test_unreserve_runs_for_every_plugin_in_reverse_order() -> None:
    log: list[str] = []

    def reserving(label: str, status: Status) -> type[Plugin]:
        def reserve(self: Plugin, state: CycleState, pod: Pod, node_name: str) -> Status:
            log.append(f"+{label}")
            return status

        def unreserve(self: Plugin, state: CycleState, pod: Pod, node_name: str) -> None:
            log.append(f"-{label}")

        body = {"name": label, "reserve": reserve, "unreserve": unreserve}
        return type(label, (Plugin, Reserve), body)

    fw = framework(
        world([node("a")]),
        reserving("One", SUCCESS),
        reserving("Two", Status.unschedulable("taken")),
        reserving("Three", SUCCESS),
    )
    state = fw.new_state()
    assert fw.run_reserve(state, pod("p"), "a").plugin == "Two"
    fw.run_unreserve(state, pod("p"), "a")
    assert log == ["+One", "+Two", "-Three", "-Two", "-One"]


async def test_post_filter_goes_on_until_one_succeeds_and_observers_always_run() -> None:
    observed: list[Status] = []

    class Fails(Plugin, PostFilter, AfterPostFilter):
        name = "Fails"

        async def post_filter(
            self, state: CycleState, pod: Pod, outcome: FilterOutcome
        ) -> tuple[PostFilterResult | None, Status]:
            return PostFilterResult("x", override=True), Status.unschedulable("no victims")

        def after_post_filter(
            self, state: CycleState, pod: Pod, outcome: FilterOutcome, status: Status
        ) -> None:
            observed.append(status)

    class Succeeds(Plugin, PostFilter):
        name = "Succeeds"

        async def post_filter(
            self, state: CycleState, pod: Pod, outcome: FilterOutcome
        ) -> tuple[PostFilterResult | None, Status]:
            return PostFilterResult("a", override=True), SUCCESS

    cluster = world([node("a")])
    for classes, expected in (((Fails,), "x"), ((Fails, Succeeds), "a")):
        fw = framework(cluster, *classes)
        result, status = await fw.run_post_filter(fw.new_state(), pod("p"), outcome_of(fw))
        assert result is not None
        assert result.nominated_node_name == expected
        assert observed.pop() == status


def test_cloned_state_clones_what_can_be_cloned() -> None:
    class Box:
        def __init__(self, value: int) -> None:
            self.value = value

        def clone(self) -> "Box":
            return Box(self.value)

    key: StateKey[Box] = StateKey("box")
    shared: StateKey[list[int]] = StateKey("shared")
    state = CycleState()
    state.write(key, Box(1))
    state.write(shared, [1])
    copy = state.clone()
    box = copy.read(key)
    assert box is not None
    box.value = 2
    original = state.read(key)
    assert original is not None
    assert original.value == 1
    assert copy.read(shared) is state.read(shared)


@pytest.mark.parametrize(("priority", "gate", "fits"), [(9, False, True), (9, True, False), (5, True, True)])
def test_nominations_of_other_schedulers_count_with_a_gate_and_a_higher_priority(
    priority: int, gate: bool, fits: bool
) -> None:
    cluster = world([node("a")])
    gates = scheduling_gates()
    gates.set({"CrossSchedulerNomination": gate})
    handle = Handle(cluster)
    plugin = Fits(NoArgs(), handle)
    fw = Framework("default-scheduler", [plugin], {"filter": [plugin]}, {}, handle, gates=gates)
    status = {"nominatedNodeName": "a"}
    cluster.store(Pod).apply(pod("n", cpu="6", priority=priority, schedulerName="other", status=status))
    assert outcome_of(fw, pod("p", priority=5)).feasible.tolist() == [fits]
