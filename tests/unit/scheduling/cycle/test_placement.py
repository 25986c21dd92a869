import asyncio
from typing import Any, ClassVar

import msgspec
import pytest

from koordpy.api.core import Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer, Fault
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
from koordpy.simulation.inprocess import ServerChannel

from ..worlds import Binder, configuration, node, pod, pod_document, world


class Records(Plugin, ReservationNominator, ResizePod, Reserve, Permit, PreBind, PostBind):
    """Returns what the test configures, and records its calls."""

    name = "Records"
    answers: ClassVar[dict[str, Status | Exception]] = {}

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []
        self.given: list[tuple[str, CycleState | None, str, str]] = []
        handle.on_forget(lambda pod, node_name: self._note("forget", None, pod, node_name))

    def _note(self, point: str, state: CycleState | None, pod: Pod, node_name: str) -> None:
        self.calls.append(point)
        self.given.append((point, state, pod.metadata.uid, node_name))

    def _call(self, point: str, state: CycleState | None, pod: Pod, node_name: str) -> Status:
        self._note(point, state, pod, node_name)
        answer = self.answers.get(point, SUCCESS)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        return None, self._call("nominate", state, pod, node_name)

    def delete_nominated_reservation(self, pod: Pod) -> None:
        self._call("delete nomination", None, pod, "")

    def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        return msgspec.structs.replace(pod), self._call("resize", state, pod, node_name)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return self._call("reserve", state, pod, node_name)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._call("unreserve", state, pod, node_name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return self._call("permit", state, pod, node_name)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        return self._call("pre_bind", state, pod, node_name)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._call("post_bind", state, pod, node_name)


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
        """Take all steps, without rolling back."""
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


async def test_every_plugin_gets_the_pod_the_node_and_the_state_of_the_cycle(answers: Any) -> None:
    w = World()
    w.cluster.store(Pod).discard("default/p")
    for ends in ("bound", "given back"):
        w.records.given.clear()
        placement = w.placement()
        assert (placement.binding.pod, placement.binding.node_name) == (placement.pod, "a")
        assert placement.reserve().is_success
        if ends == "bound":
            assert placement.permit().is_success
            assert (await placement.pre_bind()).is_success
            placement.post_bind()
            w.handle.nodes.forget("uid-p")
        else:
            placement.roll_back()
        ended = ["permit", "pre_bind", "post_bind"] if ends == "bound" else BACK
        assert [each[0] for each in w.records.given] == [*TAKEN, *ended]
        of_cycle = [each for each in w.records.given if each[0] not in ("delete nomination", "forget")]
        assert {each[1:] for each in of_cycle} == {(placement.state, "uid-p", "a")}
        others = [each for each in w.records.given if each not in of_cycle]
        assert {each[2] for each in others} == {"uid-p"}
        assert [each[3] for each in others if each[0] == "forget"] == ["a"] * (ends == "given back")


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
async def test_a_failure_rolls_back_what_was_allocated(
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
async def test_an_error_before_the_pod_is_assumed_is_kept(answers: Any, point: str) -> None:
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


async def test_a_pod_that_is_already_on_a_node_keeps_its_allocations(answers: Any) -> None:
    w = World()
    first, second = w.placement(), w.placement("b")
    assert first.reserve().is_success
    taken = list(w.records.calls)
    assert second.reserve().message == "pod default/p cannot be assumed on b: it is on a"
    assert second.roll_back()
    assert w.records.calls == taken
    assert w.handle.nodes.placed_on("uid-p") == "a"


async def test_a_pod_that_a_plugin_has_placed_meanwhile_stays_there(answers: Any) -> None:
    class Places(Plugin, ResizePod, PostBind):
        name = "Places"

        def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
            self.handle.nodes.assume(pod, "b")
            return pod, SUCCESS

        def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None: ...

    w = World(Places)
    placement = w.placement()
    assert placement.reserve().message == "pod default/p cannot be assumed on a: it is on b"
    assert placement.roll_back()
    assert w.records.calls == ["nominate", "resize", "delete nomination"]
    assert w.handle.nodes.placed_on("uid-p") == "b"


async def test_rolling_back_twice_rolls_back_once(answers: Any) -> None:
    w = World()
    placement = w.placement()
    placement.reserve()
    assert placement.roll_back()
    calls = list(w.records.calls)
    assert placement.roll_back()
    assert w.records.calls == calls == [*TAKEN, *BACK]


async def test_plugins_and_handlers_that_raise_do_not_stop_the_others(answers: Any) -> None:
    answers["unreserve"] = RuntimeError("unreserve")
    answers["delete nomination"] = RuntimeError("nomination")
    w = World()
    w.handle.on_forget(lambda pod, node_name: 1 / 0)  # type: ignore[arg-type]
    placement = w.placement()
    placement.reserve()
    assert placement.roll_back()
    assert w.records.calls == [*TAKEN, *BACK]
    assert w.is_clean()


async def test_a_waiting_pod_is_registered_as_soon_as_permit_has_answered(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()
    placement = w.placement()
    placement.reserve()
    assert placement.permit().code is Code.WAIT
    assert placement.waits == {"Records": 60}
    waiting = w.handle.waiting_pods.get("uid-p")
    assert waiting is not None
    assert waiting.node_name == "a"
    waiting.allow("Records")
    assert (await placement.allowed()).is_success
    assert not placement.is_waiting
    assert not len(w.handle.waiting_pods)


async def test_a_rejection_of_a_waiting_pod_is_a_failure(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()
    placement = w.placement()
    placement.reserve()
    placement.permit()
    waiting = w.handle.waiting_pods.get("uid-p")
    assert waiting is not None
    waiting.reject("Records", "the gang is incomplete")
    status = await placement.allowed()
    assert (status.code, status.plugin) == (Code.UNSCHEDULABLE, "Records")
    assert status.message == "the gang is incomplete"
    assert placement.ended == ""


async def test_the_rollback_ends_the_wait_without_naming_a_plugin(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()
    placement = w.placement()
    placement.reserve()
    placement.permit()
    waiting = w.handle.waiting_pods.get("uid-p")
    assert waiting is not None
    placement.roll_back("the plan was dropped")
    status = await waiting.outcome()
    assert (status.is_rejected, status.plugin, status.message) == (True, "", "the plan was dropped")


async def test_permit_after_the_rollback_is_too_late(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()
    with w.placement() as placement:
        task = asyncio.ensure_future(w.placed(placement))
        await asyncio.sleep(0)
        waiting = w.handle.waiting_pods.get("uid-p")
        assert waiting is not None
        waiting.allow("Records")  # the task has not been resumed yet
        assert placement.roll_back("the plan was dropped")
        status = await task
    assert (status.code, status.message) == (Code.ERROR, "the plan was dropped")
    assert w.records.calls == [*TAKEN, "permit", *BACK]
    assert w.is_clean()


async def test_a_cancelled_wait_rolls_back(answers: Any) -> None:
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


async def test_a_write_in_flight_is_rolled_back_only_by_its_caller(answers: Any) -> None:
    w = World()
    placement = w.placement()
    placement.reserve()
    go = asyncio.Event()

    async def write() -> Status:
        await go.wait()
        return Status.failed("refused")

    task = asyncio.ensure_future(placement.write(write()))
    await asyncio.sleep(0)
    assert not placement.roll_back()
    assert w.handle.nodes.placed_on("uid-p") == "a"
    go.set()
    assert (await task).message == "refused"
    assert placement.roll_back()
    assert w.is_clean()


async def test_a_bound_pod_keeps_what_it_has(answers: Any) -> None:
    w = World()
    placement = w.placement()
    await w.placed(placement)
    assert placement.is_bound
    assert not placement.roll_back()
    assert w.handle.nodes.placed_on("uid-p") == "a"


async def test_an_ended_placement_takes_no_further_step(answers: Any) -> None:
    w = World()
    placement = w.placement()
    placement.roll_back("too late")
    assert (await w.placed(placement)).message == "too late"
    assert placement.permit().message == "too late"
    assert (await placement.allowed()).message == "too late"
    assert (await placement.pre_bind()).message == "too late"
    assert (await placement.write(placement.bind())).message == "too late"
    assert not w.records.calls


async def test_several_placements_of_a_plan_are_held_and_rolled_back_together(answers: Any) -> None:
    answers["permit"] = Status.wait(60)
    w = World()
    names = ("p", "q", "r")
    plan = [Placement(w.framework, w.framework.new_state(), pod(name), "a") for name in names]
    for placement in plan:
        assert placement.reserve().is_success
        assert placement.permit().code is Code.WAIT
    assert len(w.handle.waiting_pods) == 3
    for placement in reversed(plan):
        assert placement.roll_back("not all of them fit")
    assert w.is_clean()


async def test_a_nomination_ends_when_the_pod_is_assumed_and_is_restored_when_it_is_forgotten(
    answers: Any,
) -> None:
    w = World()
    pods, nominator = w.cluster.store(Pod), w.handle.nominator
    nominated = pod("p", status={"nominatedNodeName": "a"})
    pods.apply(nominated)
    placement = w.placement()
    placement.reserve()
    assert not nominator
    pods.apply(pod("p", status={"nominatedNodeName": "a"}, priority=1))
    assert not nominator  # it is counted on its node
    placement.roll_back()
    assert [each.metadata.name for each in nominator.pods_on("a")] == ["p"]


class Marking(World):
    """One whose pod is on an API server of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.faults: list[Fault] = []
        self.server = ApiServer(faults=self._fault)
        self.client = self.handle.client = Client(ServerChannel(self.server))

    def _fault(self, method: str, path: str) -> Fault | None:
        if method != "PATCH":
            return None
        self.writes.append(path)
        return self.faults.pop() if self.faults else None

    async def marked(self) -> Placement:
        """Return a placement of the pod on the server, with a label and an annotation to set."""
        await self.server.load()
        document = pod_document("p")
        document["spec"]["containers"][0]["image"] = "i"
        del document["spec"]["nodeName"]
        await self.client.create_raw(resource_of(Pod), "default", document)
        live = await self.client.get(Pod, "default", "p")
        placement = Placement(self.framework, self.framework.new_state(), live, "a")
        placement.binding.annotations["note"] = "1"
        return placement

    async def live(self) -> tuple[dict[str, str], dict[str, str]]:
        meta = (await self.client.get(Pod, "default", "p")).metadata
        return dict(meta.labels), dict(meta.annotations)


async def test_labels_are_set_once_before_the_pod_is_bound_and_reverted() -> None:
    w = Marking()
    placement = await w.marked()
    placement.binding.labels["extra"] = "yes"
    w.faults = [Fault(status=409)]  # and that is tried again
    assert (await placement.mark(placement.pod)).is_success
    assert (await placement.mark(placement.pod)).is_success
    assert len(w.writes) == 2
    assert await w.live() == ({"extra": "yes"}, {})
    await placement.unmark()
    await placement.unmark()
    assert len(w.writes) == 3
    assert await w.live() == ({}, {})


async def test_annotations_are_set_if_the_binding_does_not_carry_them() -> None:
    w = Marking()
    placement = await w.marked()
    assert (await placement.mark(placement.pod)).is_success
    await placement.unmark()
    assert not w.writes
    assert (await placement.mark(placement.pod)).is_success  # there is nothing to be set
    assert (await placement.mark(placement.pod, annotations=True)).is_success
    assert await w.live() == ({}, {"note": "1"})
    await placement.unmark()
    assert await w.live() == ({}, {})


async def test_annotations_stay_out_of_the_write_of_labels_by_default() -> None:
    w = Marking()
    placement = await w.marked()
    placement.binding.labels["extra"] = "yes"
    assert (await placement.mark(placement.pod)).is_success
    assert await w.live() == ({"extra": "yes"}, {})
