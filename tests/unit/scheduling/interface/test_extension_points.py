"""What each extension point may return and how results combine by Koordinator's rules.

Source: Koordinator, `pkg/scheduler/frameworkext/framework_extender.go` and what its tests pin.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from prometheus_client import REGISTRY

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import (
    AfterPreFilter,
    BeforeFilter,
    BeforePreFilter,
    Binding,
    Filter,
    FindOneNode,
    Permit,
    Plugin,
    PreBind,
    PreferNodes,
    PreFilter,
    ReservationInfo,
    ReservationPreBind,
    Reserve,
    ResizePod,
    Score,
)
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Code, Status, Verdict
from koordpy.scheduling.profiles.registry import Place, build

from ..worlds import Binder, configuration, framework, node, pod, world

Names = frozenset[str] | None


class Hooks(Plugin, BeforePreFilter, PreFilter, AfterPreFilter):
    """Records its calls; `says` has its answers by point."""

    seen: ClassVar[list[str]] = []
    says: ClassVar[dict[str, Status]] = {}

    def _note(self, point: str, pod: Pod) -> Status:
        self.seen.append(f"{point} {self.name} {pod.metadata.name}")
        return self.says.get(f"{point} {self.name}", SUCCESS)

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        return None, self._note("before", pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Names, Status]:
        return None, self._note("pre", pod)

    def after_pre_filter(self, state: CycleState, pod: Pod, node_names: Names) -> Status:
        return self._note("after", pod)


class Changes(Hooks, FindOneNode):
    name = "Changes"

    def before_pre_filter(self, state: CycleState, pod_: Pod) -> tuple[Pod | None, Status]:
        return pod("changed"), self._note("before", pod_)

    def find_one_node(self, state: CycleState, pod: Pod, node_names: Names) -> tuple[str, Status]:
        status = self._note("find", pod)
        return ("", Status.skip()) if status.is_success else ("b" * status.is_rejected, SUCCESS)


class Prefers(Hooks, PreferNodes):
    name = "Prefers"
    wants: ClassVar[Sequence[str]] = ("b",)

    def prefer_nodes(self, state: CycleState, pod: Pod, node_names: Names) -> tuple[Sequence[str], Status]:
        return self.wants, self._note("prefer", pod)


class NotA(Plugin, Filter):
    name = "NotA"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if node.name == "broken":
            raise RuntimeError("boom")
        return Status.unschedulable("is a") if node.name == "a" else SUCCESS


@pytest.fixture(autouse=True)
def silence() -> None:
    Hooks.seen.clear()
    Hooks.says = {}
    Prefers.wants = ("b",)


def abc(*classes: type[Plugin]) -> Framework:
    return framework(world([node(name) for name in ("a", "b", "c", "broken")]), *classes)


def pre_filtered(fw: Framework, *names: str) -> tuple[Names, Status]:
    nodes, _ = fw.handle.nodes.select(names or ("a", "b", "c"))
    outcome = fw.run_pre_filter(fw.new_state(), pod("p"), nodes)
    return outcome.node_names, outcome.status


class TestPreFilter:
    def test_all_hooks_run_in_one_call_and_see_the_pod_as_the_transformers_left_it(self) -> None:
        names, status = pre_filtered(abc(Changes, Prefers, NotA))
        assert (names, status.code) == (frozenset("b"), Code.SUCCESS)
        assert Hooks.seen == [
            "before Changes p",
            "before Prefers changed",
            "pre Changes changed",
            "pre Prefers changed",
            "after Changes changed",
            "after Prefers changed",
            "find Changes changed",
            "prefer Prefers changed",
        ]

    @pytest.mark.parametrize("point", ["before", "after", "prefer"])
    @pytest.mark.parametrize("status", [Status.failed("broken"), Status.unschedulable("no"), Status.skip()])
    def test_a_failing_hook_ends_the_phase_with_its_status(self, point: str, status: Status) -> None:
        Hooks.says[f"{point} Prefers"] = status
        names, came = pre_filtered(abc(Prefers))
        assert names is None
        if point == "prefer" and status.is_skip:
            assert came.is_success
        else:
            assert came == status.by("Prefers")

    @pytest.mark.parametrize(
        ("answer", "code", "message"),
        [
            (Status(Code.PENDING, ("later",)), Code.ERROR, 'running PreFilter plugin "Prefers": later'),
            (Status.wait(1), Code.ERROR, 'running PreFilter plugin "Prefers": '),
            (Status.failed("boom"), Code.ERROR, 'running PreFilter plugin "Prefers": boom'),
            (Status.unschedulable("no"), Code.UNSCHEDULABLE, "no"),
        ],
    )
    def test_after_pre_filter_does_not_run_when_pre_filter_failed(
        self, answer: Status, code: Code, message: str
    ) -> None:
        Hooks.says["pre Prefers"] = answer
        _, status = pre_filtered(abc(Prefers))
        assert (status.code, status.message, status.plugin) == (code, message, "Prefers")
        assert not any(line.startswith("after") for line in Hooks.seen)

    def test_a_found_node_is_the_only_one_and_others_are_rejected_without_a_plugin(self) -> None:
        Hooks.says["find Changes"] = Status.unschedulable("")
        fw = abc(Changes, Prefers)
        outcome = fw.find_feasible(fw.new_state(), pod("p"), fw.handle.nodes.all())
        assert list(outcome.kept.names) == ["b"]
        assert outcome.absent_status == Status.unresolvable("node(s) didn't satisfy plugin(s) []")
        assert not any(line.startswith("prefer") for line in Hooks.seen)

    def test_success_without_a_node_is_an_error(self) -> None:
        Hooks.says["find Changes"] = Status.failed("")
        _, status = pre_filtered(abc(Changes))
        assert status.code is Code.ERROR
        assert status.message == (
            'FindOneNodePlugin "Changes" succeeded but produced no node for pod default/changed'
        )

    @pytest.mark.parametrize(
        ("wants", "names"),
        [
            (("unknown",), None),
            (("unknown", "c", "b"), frozenset("c")),
            (("a", "b"), frozenset("b")),
            (("broken", "c"), frozenset("c")),
            (("broken", "a"), None),
        ],
    )
    def test_preferred_nodes_are_tried_in_order(self, wants: Sequence[str], names: Names) -> None:
        Prefers.wants = wants
        came, status = pre_filtered(abc(Prefers, NotA), "a", "b", "c", "broken")
        assert status.is_success
        assert came == names

    def test_preferred_nodes_that_are_no_candidates_do_not_count(self) -> None:
        Prefers.wants = ("b", "c")
        assert pre_filtered(abc(Prefers, NotA), "a", "c")[0] == frozenset("c")

    def test_the_first_of_two_plugins_that_prefer_nodes_is_called(self) -> None:
        class AlsoPrefers(Prefers):
            name = "AlsoPrefers"
            wants = ("c",)

        assert pre_filtered(abc(Prefers, AlsoPrefers))[0] == frozenset("b")


def test_an_error_of_before_filter_fails_the_attempt_as_it_is() -> None:
    class Broken(Plugin, BeforeFilter):
        name = "Broken"

        def before_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Verdict]:
            return pod, nodes, Verdict.of([Status.failed("lost"), *[SUCCESS] * (len(nodes) - 1)])

    fw = abc(Broken)
    outcome = fw.find_feasible(fw.new_state(), pod("p"), fw.handle.nodes.all())
    assert outcome.error == Status(Code.ERROR, ("lost",), "Broken")


class TestScore:
    @staticmethod
    def message(cls: type[Plugin]) -> str:
        fw = abc(cls)
        scores, status = fw.run_score(fw.new_state(), pod("p"), fw.handle.nodes.all())
        assert scores is None
        assert status.code is Code.ERROR
        return status.message

    def test_failures_are_worded_as_kube_scheduler_words_them(self) -> None:
        class Fails(Plugin, Score):
            name = "Fails"

            def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
                raise ValueError("boom")

        class FailsLater(Plugin, Score):
            name = "FailsLater"

            def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
                return np.full(len(nodes), 101)

        assert self.message(Fails) == 'running Score plugins: plugin "Fails" failed with: ValueError: boom'
        assert self.message(FailsLater) == (
            'applying score defaultWeights on Score plugins: plugin "FailsLater" returns an invalid score '
            "101, it should in the range of [0, 100] after normalizing"
        )


class TestResize:
    class Grows(NotA, ResizePod):
        name = "Grows"

        def resize_pod(self, state: CycleState, pod_: Pod, node_name: str) -> tuple[Pod, Status]:
            return pod(f"{pod_.metadata.name}+"), SUCCESS

    class Refuses(NotA, ResizePod):
        name = "Refuses"

        def resize_pod(self, state: CycleState, pod_: Pod, node_name: str) -> tuple[Pod, Status]:
            return pod_, Status.unschedulable("too big")

    def run(self, *classes: type[Plugin], on: bool = True) -> tuple[str, Status]:
        cluster = world([node("a")])
        every: list[type[Plugin]] = [*classes, Binder]
        profiles = build(
            configuration([cls.name for cls in classes]),
            lambda _: Handle(cluster),
            place=Place.EXTENDER,
            classes={cls.name: cls for cls in every},
            gates=FeatureGates(SPECS, {"ResizePod": on}),
        )
        fw = profiles.frameworks["default-scheduler"]
        resized, status = fw.run_resize_pod(fw.new_state(), pod("p"), "a")
        return resized.metadata.name, status

    def test_pods_are_resized_in_order_until_one_refuses(self) -> None:
        assert self.run(self.Grows) == ("p+", SUCCESS)
        assert self.run(self.Refuses, self.Grows) == ("p", Status.unschedulable("too big").by("Refuses"))

    def test_without_the_gate_no_pod_is_resized(self) -> None:
        assert self.run(self.Grows, on=False) == ("p", SUCCESS)


class TestPermit:
    @pytest.mark.parametrize(
        ("answers", "code", "waits"),
        [
            ([SUCCESS, Status.wait(5)], Code.WAIT, {"P1": 5}),
            ([Status.wait(5), Status.wait(3600)], Code.WAIT, {"P0": 5, "P1": 900}),
            ([Status.wait(5), Status.unschedulable("no"), Status.wait(1)], Code.UNSCHEDULABLE, {}),
            ([Status.skip()], Code.ERROR, {}),
            ([SUCCESS, SUCCESS], Code.SUCCESS, {}),
        ],
    )
    def test_any_wait_makes_the_pod_wait_unless_a_plugin_rejects(
        self, answers: list[Status], code: Code, waits: dict[str, float]
    ) -> None:
        def answering(place: int, answer: Status) -> type[Plugin]:
            class Answers(Plugin, Permit):
                name = f"P{place}"

                def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
                    return answer

            return Answers

        fw = abc(*(answering(place, answer) for place, answer in enumerate(answers)))
        status, came = fw.run_permit(fw.new_state(), pod("p"), "a")
        assert (status.code, came) == (code, waits)


def test_reserve_sees_its_phase_and_the_first_failure_stops_it() -> None:
    phases: list[str | None] = []

    class Notes(Plugin, Reserve):
        name = "Notes"

        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            phases.append(state.read(SCHEDULING_PHASE))
            return Status.failed("full")

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            phases.append("given back")

    class Never(Notes):
        name = "Never"

    fw, state = abc(Notes, Never), CycleState()
    status = fw.run_reserve(state, pod("p"), "a")
    assert status == Status(Code.ERROR, ('running Reserve plugin "Notes": full',), "Notes")
    assert phases == ["Reserve"]
    assert state.read(SCHEDULING_PHASE) is None


class Prepares(Plugin, PreBind, ReservationPreBind):
    """Fails for pods, and records that it was called for a Reservation."""

    asked: ClassVar[list[str]] = []

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        return Status.failed(f"{self.name} fails")

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        self.asked.append(self.name)
        return SUCCESS


class First(Prepares):
    name = "First"


class Second(Prepares):
    name = "Second"


async def test_reserve_pods_have_pre_bind_reservation_in_the_order_of_pre_bind_instead_of_pre_bind() -> None:
    Prepares.asked.clear()
    order = {"enabled": [{"name": "Second"}, {"name": "First"}], "disabled": [{"name": "*"}]}
    fw = framework(world([node("a")]), First, Second, preBind=order)
    binding = Binding(pod("p"), "a")
    reserved = ReservationInfo(decode(Reservation, {"metadata": {"name": "r", "uid": "uid-r"}}))
    status = await fw.run_pre_bind(fw.new_state(), pod("p"), binding)
    assert status.message == 'running PreBind plugin "Second": Second fails'
    assert (await fw.run_pre_bind_reservation(fw.new_state(), reserved, binding)).is_success
    assert Prepares.asked == ["Second", "First"]


class TestMetrics:
    @staticmethod
    def counted(point: str, status: str) -> float:
        labels = {"plugin": "Prefers", "extension_point": point, "status": status}
        return REGISTRY.get_sample_value("scheduler_plugin_execution_duration_seconds_count", labels) or 0

    def test_koordinators_points_are_always_timed_with_the_name_of_the_status(self) -> None:
        points = [
            ("BeforePreFilter", "Success"),
            ("AfterPreFilter", "Success"),
            ("PreferNodesPlugin", "UnschedulableAndUnresolvable"),
        ]
        before = [self.counted(*point) for point in points]
        Hooks.says["prefer Prefers"] = Status.unresolvable("no")
        fw, state = abc(Prefers), CycleState()
        fw.run_pre_filter(state, pod("p"), fw.handle.nodes.all())
        assert [self.counted(*point) for point in points] == [count + 1 for count in before]

    @pytest.mark.parametrize("measured", [True, False])
    def test_kubernetes_points_are_timed_in_a_sample_of_the_attempts(self, measured: bool) -> None:
        before = self.counted("PreFilter", "Success")
        fw, state = abc(Prefers), CycleState()
        state.measured = measured
        fw.run_pre_filter(state, pod("p"), fw.handle.nodes.all())
        assert self.counted("PreFilter", "Success") == before + measured

    async def test_the_points_after_the_choice_of_a_node_are_timed_as_a_whole(self) -> None:
        name = "scheduler_framework_extension_point_duration_seconds_count"
        points = [("Permit", "Success"), ("PreBind", "Error"), ("Bind", "Success")]

        def counts() -> list[float]:
            labels = [
                {"extension_point": point, "status": status, "profile": "default-scheduler"}
                for point, status in points
            ]
            return [REGISTRY.get_sample_value(name, each) or 0 for each in labels]

        before = counts()
        fw, state, binding = abc(First), CycleState(), Binding(pod("p"), "a")
        fw.run_permit(state, pod("p"), "a")
        await fw.run_pre_bind(state, pod("p"), binding)
        await fw.run_bind(state, pod("p"), binding)
        assert counts() == [count + 1 for count in before]


def test_codes_are_labelled_as_kubernetes_names_them() -> None:
    assert [code.label for code in Code] == [
        "Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending",
    ]  # fmt: skip
