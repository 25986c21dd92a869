import asyncio
from typing import Any, ClassVar

import msgspec
import pytest

from koordpy.api.core import Pod
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import (
    Binding,
    Permit,
    Plugin,
    PostBind,
    PreBind,
    ReservationNominator,
    Reserve,
    ResizePod,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import RESIZE_POD, scheduling_gates
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.profiles.registry import Place, build

from ..worlds import Binder, configuration, node, pod, world


class Records(Plugin, ReservationNominator, ResizePod, Reserve, Permit, PreBind, PostBind):
    """Answers what the test wants, and notes its calls."""

    name = "Records"
    answers: ClassVar[dict[str, Status | Exception]] = {}

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []
        handle.on_forget(lambda pod, node_name: self.calls.append("forget"))

    def _call(self, point: str) -> Status:
        self.calls.append(point)
        answer = self.answers.get(point, SUCCESS)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        return None, self._call("nominate")

    def delete_nominated_reservation(self, pod: Pod) -> None:
        self._call("delete nomination")

    def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        return msgspec.structs.replace(pod), self._call("resize")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return self._call("reserve")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._call("unreserve")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return self._call("permit")

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        return self._call("pre_bind")

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._call("post_bind")


class World:
    """One node, one pod, one profile."""

    def __init__(self, *classes: type[Plugin], gates: FeatureGates | None = None) -> None:
        self.cluster = world([node("a"), node("b")], [pod("p")])
        self.handle = Handle(self.cluster)
        if gates is None:
            gates = scheduling_gates()
            gates.set({RESIZE_POD: True})
        enabled: list[type[Plugin]] = [Records, *classes]
        known: list[type[Plugin]] = [*enabled, Binder]
        self.framework: Framework = build(
            configuration([cls.name for cls in enabled]),
            lambda _: self.handle,
            place=Place.EXTENDER,
            classes={cls.name: cls for cls in known},
            gates=gates,
        ).frameworks["default-scheduler"]

    @property
    def records(self) -> Records:
        return next(plugin for plugin in self.framework.plugins if isinstance(plugin, Records))

    def placement(self, node_name: str = "a") -> Placement:
        return Placement(self.framework, self.framework.new_state(), pod("p"), node_name)

    async def placed(self, placement: Placement) -> Status:
        """Take all steps, without going back."""
        status = placement.reserve()
        if status.is_success:
            status = placement.permit()
        if status.code in (Code.SUCCESS, Code.WAIT):
            status = await placement.allowed()
        if status.is_success:
            status = await placement.pre_bind()
        return await placement.write(placement.bind()) if status.is_success else status

    def is_clean(self) -> bool:
        requested = self.handle.nodes.requested
        return not (requested.any() or len(self.handle.waiting_pods) or self.handle.nominator)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Status | Exception]:
    given: dict[str, Status | Exception] = {}
    monkeypatch.setattr(Records, "answers", given)
    return given


TAKEN = ["nominate", "resize", "reserve", "delete nomination"]
BACK = ["unreserve", "forget", "delete nomination"]


async def test_a_placement_takes_the_steps_of_a_cycle_in_order(answers: Any) -> None:
    w = World()
    with w.placement() as placement:
        assert (await w.placed(placement)).is_success
        placement.post_bind()
    assert w.records.calls == [*TAKEN, "permit", "pre_bind", "post_bind"]
    assert w.handle.nodes.placed_on("uid-p") == "a"


@pytest.mark.parametrize("how", ["rejects", "breaks", "raises"])
@pytest.mark.parametrize(
    ("point", "calls"),
    [
        ("nominate", ["nominate", "delete nomination"]),
        ("resize", ["nominate", "resize", "unreserve", "delete nomination"]),
        ("reserve", [*TAKEN, *BACK]),
        ("permit", [*TAKEN, "permit", *BACK]),
        ("pre_bind", [*TAKEN, "permit", "pre_bind", *BACK]),
    ],
)
async def test_a_failure_gives_back_what_was_taken_until_then(
    answers: Any, point: str, calls: list[str], how: str
) -> None:
    answers[point] = {
        "rejects": Status.unschedulable("no"),
        "breaks": Status.failed("no"),
        "raises": RuntimeError("no"),
    }[how]
    w = World()
    with w.placement() as placement:
        status = await w.placed(placement)
    assert not status.is_success
    assert "no" in status.message
    assert w.records.calls == calls
    assert w.is_clean()


@pytest.mark.parametrize("point", ["nominate", "resize"])
async def test_a_rejection_before_the_pod_is_assumed_is_an_error(answers: Any, point: str) -> None:
    answers[point] = Status.unschedulable("no").by("Records")
    status = World().placement().reserve()
    assert (status.code, status.plugin, status.message) == (Code.ERROR, "Records", "no")


@pytest.mark.parametrize("point", ["nominate", "resize"])
async def test_what_broke_before_the_pod_is_assumed_is_kept(answers: Any, point: str) -> None:
    answers[point] = error = RuntimeError("no")
    assert World().placement().reserve().error is error


async def test_a_pod_without_the_labels_that_pre_bind_wants_is_not_bound(answers: Any) -> None:
    w = World()  # there is no client to set them with
    placement = w.placement()
    placement.binding.labels["extra"] = "yes"
    status = await w.placed(placement)
    assert "no client to write labels of p with" in status.message
    assert not placement.is_bound
    live = w.cluster.store(Pod).get("default", "p")
    assert live is not None
    assert not live.spec.node_name


async def test_without_the_gate_no_pod_is_resized(answers: Any) -> None:
    w = World(gates=scheduling_gates())
    w.placement().reserve()
    assert "resize" not in w.records.calls


async def test_a_pod_that_is_on_a_node_already_keeps_what_it_has_there(answers: Any) -> None:
    w = World()
    first, second = w.placement(), w.placement("b")
    assert first.reserve().is_success
    taken = list(w.records.calls)
    assert second.reserve().message == "pod default/p cannot be assumed on b: it is on a"
    assert second.give_back()
    assert w.records.calls == taken
    assert w.handle.nodes.placed_on("uid-p") == "a"


async def test_giving_back_twice_gives_back_once(answers: Any) -> None:
    w = World()
    placement = w.placement()
    placement.reserve()
    assert placement.give_back()
    calls = list(w.records.calls)
    assert placement.give_back()
    assert w.records.calls == calls == [*TAKEN, *BACK]


async def test_plugins_and_handlers_that_raise_keep_nothing_from_the_rest(answers: Any) -> None:
    answers["unreserve"] = RuntimeError("unreserve")
    answers["delete nomination"] = RuntimeError("nomination")
    w = World()
    w.handle.on_forget(lambda pod, node_name: 1 / 0)  # type: ignore[arg-type]
    placement = w.placement()
    placement.reserve()
    assert placement.give_back()
    assert w.records.calls == [*TAKEN, *BACK]
    assert w.is_clean()


async def test_a_waiting_pod_is_known_as_soon_as_permit_has_answered(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()
    placement = w.placement()
    placement.reserve()
    assert placement.permit().code is Code.WAIT
    assert placement.waits == {"Records": 60}
    waiting = w.handle.waiting_pods.get("uid-p")
    assert waiting is not None
    waiting.allow("Records")
    assert (await placement.allowed()).is_success
    assert not placement.is_waiting
    assert not len(w.handle.waiting_pods)


async def test_a_permit_that_comes_after_the_way_back_is_too_late(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()
    with w.placement() as placement:
        task = asyncio.ensure_future(w.placed(placement))
        await asyncio.sleep(0)
        waiting = w.handle.waiting_pods.get("uid-p")
        assert waiting is not None
        waiting.allow("Records")  # the task has not heard of it yet
        assert placement.give_back("the plan was dropped")
        status = await task
    assert (status.code, status.message) == (Code.ERROR, "the plan was dropped")
    assert w.records.calls == [*TAKEN, "permit", *BACK]
    assert w.is_clean()


async def test_a_cancelled_wait_gives_back(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()

    async def cycle() -> None:
        with w.placement() as placement:
            await w.placed(placement)

    task = asyncio.ensure_future(cycle())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert w.records.calls == [*TAKEN, "permit", *BACK]
    assert w.is_clean()


async def test_what_is_being_written_is_given_back_by_nobody_else(answers: Any) -> None:
    w = World()
    placement = w.placement()
    placement.reserve()
    go = asyncio.Event()

    async def write() -> Status:
        await go.wait()
        return Status.failed("refused")

    task = asyncio.ensure_future(placement.write(write()))
    await asyncio.sleep(0)
    assert not placement.give_back()
    assert w.handle.nodes.placed_on("uid-p") == "a"
    go.set()
    assert (await task).message == "refused"
    assert placement.give_back()
    assert w.is_clean()


async def test_a_bound_pod_keeps_what_it_has(answers: Any) -> None:
    w = World()
    placement = w.placement()
    await w.placed(placement)
    assert placement.is_bound
    assert not placement.give_back()
    assert w.handle.nodes.placed_on("uid-p") == "a"


async def test_an_ended_placement_takes_no_further_step(answers: Any) -> None:
    w = World()
    placement = w.placement()
    placement.give_back("too late")
    assert (await w.placed(placement)).message == "too late"
    assert placement.permit().message == "too late"
    assert (await placement.allowed()).message == "too late"
    assert (await placement.pre_bind()).message == "too late"
    assert (await placement.write(placement.bind())).message == "too late"
    assert not w.records.calls


async def test_several_placements_of_a_plan_are_held_and_given_back_together(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()
    names = ("p", "q", "r")
    plan = [Placement(w.framework, w.framework.new_state(), pod(name), "a") for name in names]
    for placement in plan:
        assert placement.reserve().is_success
        assert placement.permit().code is Code.WAIT
    assert len(w.handle.waiting_pods) == 3
    for placement in reversed(plan):
        assert placement.give_back("not all of them fit")
    assert w.is_clean()


async def test_a_nomination_ends_with_the_assumption_and_comes_back_with_it(answers: Any) -> None:
    w = World()
    pods, nominator = w.cluster.store(Pod), w.handle.nominator
    nominated = pod("p", status={"nominatedNodeName": "a"})
    pods.apply(nominated)
    placement = w.placement()
    placement.reserve()
    assert not nominator
    pods.apply(pod("p", status={"nominatedNodeName": "a"}, priority=1))
    assert not nominator  # it is counted on its node
    placement.give_back()
    assert [each.metadata.name for each in nominator.pods_on("a")] == ["p"]
