"""Jobs beside kube-scheduler: planned whole, held, bound with what is held, released whole."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.gangs import jobs
from koordpy.scheduling.interface import (
    Binding,
    FindOneNode,
    Job,
    Permit,
    PlacementPlan,
    PlannedPod,
    PlansJobs,
    Plugin,
    PostFilter,
    PreFilter,
    Reserve,
    TentativeReserve,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.gates import INLINE_BATCH_SCHEDULE, SPECS
from koordpy.scheduling.interface.jobs import MOVED
from koordpy.scheduling.interface.pod_queues import WOKEN, ClusterEvent
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles.registry import installed
from tests.eventually import PATIENCE

from ..worlds import Binder, bind_body, extender, filter_body, node, pod, pod_document, world


class Together(Plugin, PreFilter, PlansJobs, Reserve, Permit):
    """Places all pods whose names begin alike (`a-0`, `a-1`) together; they wait for each other in Permit."""

    name = "Together"
    reruns = ("NodeResourcesFit",)

    def __init__(self, args, handle) -> None:
        super().__init__(args, handle)
        self.pods = handle.cluster.store(Pod)
        self.waiting: set[str] = set()
        self.notes: list[tuple[str, object]] = []
        self.moved: list[str] = []
        self.seconds = 600.0
        self.at_least = 10

    def members(self, pod: Pod) -> list[Pod]:
        prefix = pod.metadata.name.rpartition("-")[0]
        found = [each for each in self.pods if each.metadata.name.rpartition("-")[0] == prefix]
        return sorted(found, key=lambda each: each.metadata.name)

    def may_plan(self, pod: Pod) -> bool:
        return "-" in pod.metadata.name

    def job_of(self, pod: Pod) -> Job | None:
        members = self.members(pod)
        pending = tuple(
            each for each in members if not each.spec.node_name and each.metadata.uid not in self.waiting
        )
        needed = min(self.at_least, len(members))
        return Job(
            pod.metadata.name.rpartition("-")[0], pending, lambda placed: len(placed) >= needed, self.seconds
        )

    def planning(self, job: Job) -> None:
        self.notes.append(("planning", job.id))

    def job_planned(self, job: Job, nodes: Mapping[str, str]) -> None:
        self.notes.append(("planned", dict(nodes)))

    def job_refused(self, job: Job, status: Status) -> None:
        self.notes.append(("refused", status.message))

    def pre_filter(self, state, pod, nodes):
        return None, SUCCESS

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if state.read(MOVED):
            self.moved.append(pod.metadata.name)
            return
        self.waiting.discard(pod.metadata.uid)
        for each in self.handle.waiting_pods:
            each.reject(self.name, "another pod of the job failed")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.waiting.add(pod.metadata.uid)
        members = self.members(pod)
        if all(each.spec.node_name or each.metadata.uid in self.waiting for each in members):
            for waiting in self.handle.waiting_pods:
                waiting.allow(self.name)
            return SUCCESS
        return Status.wait(60)


class Activated:
    """A queue that remembers which pods were to be retried."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def activate(self, pod: Pod) -> None:
        self.names.append(pod.metadata.name)

    def move_all(self, event: ClusterEvent) -> None:
        pass


class OnPlannedNodes(Plugin, PreFilter, FindOneNode):
    """Plans the pods of a job on the last nodes by name."""

    name = "OnPlannedNodes"

    def pre_filter(self, state, pod, nodes):
        return None, SUCCESS

    def find_one_node(self, state, pod, node_names):
        framework = self.handle.framework
        assert isinstance(framework, Framework)
        together = next(each for each in framework.plugins if isinstance(each, Together))
        names = sorted((each.metadata.name for each in self.handle.cluster.store(Node)), reverse=True)
        members = together.members(pod)
        return PlacementPlan(
            [PlannedPod(each, name) for each, name in zip(members, names, strict=False)]
        ), SUCCESS


class Counts(Plugin, Reserve, TentativeReserve):
    """Counts pods from filter to Reserve."""

    name = "Counts"

    def __init__(self, args, handle) -> None:
        super().__init__(args, handle)
        self.counted: set[str] = set()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        assert pod.metadata.name not in self.counted
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    def reserve_tentatively(self, state: CycleState, pod: Pod) -> None:
        self.counted.add(pod.metadata.name)

    def unreserve_tentatively(self, pod: Pod) -> None:
        self.counted.discard(pod.metadata.name)


FIT = installed()["NodeResourcesFit"]


class World:
    """Three nodes of two CPUs, and pods of one CPU each."""

    def __init__(
        self,
        *names: str,
        plugins: tuple[type[Plugin], ...] = (),
        nodes: int = 3,
        gates: FeatureGates | None = None,
    ) -> None:
        self.names = [f"n{i}" for i in range(nodes)]
        self.cluster = world([node(name, cpu="2") for name in self.names], [pod(name) for name in names])
        self.extender: Extender = extender(self.cluster, FIT, Together, *plugins, gates=gates)
        self.nodes = self.cluster.nodes
        self.together = self.plugin(Together)

    def plugin(self, cls: type[Any]) -> Any:
        framework = self.extender.profiles.frameworks["default-scheduler"]
        return next(each for each in framework.plugins if isinstance(each, cls))

    def filter(self, name: str, names: list[str] | None = None) -> dict[str, Any]:
        body = filter_body(pod_document(name), self.names if names is None else names)
        answer: dict[str, Any] = json.loads(self.extender.filter(body)[0])
        return answer

    def node_for(self, name: str, names: list[str] | None = None) -> str:
        answer = self.filter(name, names)
        assert answer["NodeNames"], answer
        (found,) = answer["NodeNames"]
        return found

    def why_not(self, name: str) -> str:
        answer = self.filter(name)
        assert not answer["NodeNames"]
        (message,) = set(answer["FailedAndUnresolvableNodes"].values())
        return message

    async def bind(self, name: str, node_name: str) -> str:
        answer = json.loads(await self.extender.bind(bind_body(pod_document(name), node_name), None))
        error: str = answer["Error"]
        return error

    def delete(self, name: str) -> None:
        store = self.cluster.store(Pod)
        found = store.get("default", name)
        assert found is not None
        store.discard(found.metadata.key)

    @property
    def assumed(self) -> set[str]:
        return {f"a-{i}" for i in range(8) if self.nodes.is_assumed(f"uid-a-{i}")}

    def is_clean(self) -> bool:
        return not len(self.extender.jobs.held) and not self.nodes.unconfirmed()


async def test_the_first_filter_call_reserves_nodes_for_all_pods() -> None:
    w = World("a-0", "a-1", "a-2", "a-3", "a-4", "a-5")
    w.node_for("a-2")
    assert w.assumed == {"a-0", "a-1", "a-2", "a-3", "a-4", "a-5"}
    assert [note[0] for note in w.together.notes] == ["planning", "planned"]
    found = {name: w.node_for(name) for name in sorted(w.assumed)}
    assert sorted(found.values()) == ["n0", "n0", "n1", "n1", "n2", "n2"]
    assert {name: w.nodes.placed_on(f"uid-{name}") for name in found} == found


async def test_held_room_is_taken_from_other_pods() -> None:
    w = World("a-0", "a-1", "a-2", "a-3", "single")
    w.node_for("a-0")
    full = [name for name in w.names if int(w.nodes.requested[w.nodes.row_of(name), 0]) == 2000]
    assert full
    answer = w.filter("single")
    assert not set(full) & set(answer["NodeNames"] or ())


async def test_pods_are_bound_with_what_is_held_and_nothing_is_left() -> None:
    w = World("a-0", "a-1", "a-2")
    found = {name: w.node_for(name) for name in ("a-0", "a-1", "a-2")}
    errors = await asyncio.gather(*(w.bind(name, node_name) for name, node_name in found.items()))
    assert errors == ["", "", ""]
    assert w.is_clean()
    store = w.cluster.store(Pod)
    assert {name: each.spec.node_name for name in found if (each := store.get("default", name))} == found


async def test_a_job_that_does_not_fit_takes_nothing_and_all_are_told_why() -> None:
    w = World(*(f"a-{i}" for i in range(7)))
    told = w.why_not("a-3")
    assert told.startswith("6 of 7 pods of a fit; pod default/a-6 does not: 0/3 nodes are available")
    assert w.is_clean()
    assert {w.why_not(f"a-{i}") for i in (0, 1, 2, 4, 5, 6)} == {told}
    assert [note[0] for note in w.together.notes] == ["planning", "refused"]
    assert w.why_not("a-0") == told
    assert [note[0] for note in w.together.notes] == ["planning", "refused"] * 2


async def test_a_refused_job_is_planned_again_once_room_appears() -> None:
    w = World(*(f"a-{i}" for i in range(7)))
    w.why_not("a-0")
    w.cluster.store(Node).apply(node("n3", cpu="2"))
    w.names.append("n3")
    assert isinstance(w.extender.clock, FakeClock)
    w.extender.clock.advance(1.0)
    w.node_for("a-1")
    assert len(w.assumed) == 7


async def test_all_pods_of_a_refused_job_are_failed_by_the_plugins_that_are_the_reason() -> None:
    w = World(*(f"a-{i}" for i in range(7)))
    failures: dict[str, frozenset[str]] = {}

    def failed(failure: Failure) -> bool:
        failures[failure.pod.metadata.name] = failure.plugins - {""}
        return False

    w.extender.profiles.frameworks["default-scheduler"].handle.on_failure(failed)
    for i in range(7):
        w.why_not(f"a-{i}")
    assert failures == {f"a-{i}": {"NodeResourcesFit", "Together"} for i in range(7)}


async def test_a_pod_that_was_woken_is_not_told_what_was_true_before() -> None:
    w = World(*(f"a-{i}" for i in range(7)))
    w.why_not("a-0")
    w.together.at_least = 6
    woken = pod_document("a-1")
    woken["metadata"]["annotations"] = {WOKEN: "2026-01-01T00:00:00Z"}
    answer = json.loads(w.extender.filter(filter_body(woken, w.names))[0])
    assert answer["NodeNames"]


async def test_a_job_goes_ahead_with_fewer_pods_if_they_suffice() -> None:
    w = World(*(f"a-{i}" for i in range(7)))
    w.together.at_least = 4
    w.node_for("a-6")
    assert len(w.assumed) == 6
    assert "a-6" in w.assumed


async def test_a_job_goes_ahead_without_the_pod_that_asked_if_the_others_suffice() -> None:
    w = World("a-1", "a-2")
    w.cluster.store(Pod).apply(pod("a-0", cpu="64"))
    w.together.at_least = 2
    body = filter_body(pod_document("a-0", cpu="64"), w.names)
    told = json.loads(w.extender.filter(body)[0])["FailedAndUnresolvableNodes"]["n0"]
    assert told.startswith("2 of 3 pods of a fit; pod default/a-0 does not")
    assert w.assumed == {"a-1", "a-2"}
    assert w.node_for("a-1") == w.nodes.placed_on("uid-a-1")


async def test_a_deleted_pod_releases_the_whole_plan() -> None:
    w = World("a-0", "a-1", "a-2")
    w.node_for("a-0")
    w.delete("a-1")
    assert w.is_clean()


async def test_a_preempted_pod_releases_the_whole_plan() -> None:
    w = World("a-0", "a-1", "a-2")
    w.node_for("a-0")
    waiting = w.extender.handle.waiting_pods
    assert not waiting.preempt("uid-another", "Preempts")
    assert waiting.preempt("uid-a-1", "Preempts")
    assert w.is_clean()


async def test_a_deleted_node_releases_the_whole_plan() -> None:
    w = World("a-0", "a-1")
    name = w.node_for("a-0")
    found = w.cluster.store(Node).by_key(name)
    assert found is not None
    w.cluster.store(Node).discard(found.metadata.key)
    assert w.is_clean()


async def test_a_plan_whose_pods_do_not_ask_in_time_is_released() -> None:
    w = World("a-0", "a-1")
    w.together.seconds = 0.01
    w.node_for("a-0")
    assert len(w.extender.jobs.held) == 2
    async with asyncio.timeout(PATIENCE):
        while not w.is_clean():
            await asyncio.sleep(0.01)


async def test_planned_pods_that_do_not_come_are_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "REMINDED_AFTER", 0.0)
    w = World("a-0", "a-1", "a-2")
    queue = Activated()
    w.extender.profiles.frameworks["default-scheduler"].handle.queue.join(queue)
    node_name = w.node_for("a-0")
    binding = asyncio.create_task(w.bind("a-0", node_name))
    async with asyncio.timeout(PATIENCE):
        while not queue.names:
            await asyncio.sleep(0)
    assert queue.names == ["a-1", "a-2"]
    w.delete("a-1")
    await binding


async def test_what_is_left_of_a_plan_is_released_when_a_bind_fails() -> None:
    w = World("a-0", "a-1", "a-2")
    found = {name: w.node_for(name) for name in ("a-0", "a-1", "a-2")}
    first = asyncio.ensure_future(w.bind("a-0", found["a-0"]))
    while w.extender.handle.waiting_pods.get("uid-a-0") is None:
        await asyncio.sleep(0)
    w.delete("a-0")
    assert "deleted" in await first
    assert w.is_clean()


class Unwritable(Binder):
    """Fails to write the binding of one pod once."""

    unwritten = "a-2"

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        if pod.metadata.name == self.unwritten:
            self.unwritten = ""
            return Status.failed("the API server is busy")
        return await super().bind(state, pod, binding)


async def test_the_node_of_a_pod_is_held_until_it_is_tried_again_if_its_binding_cannot_be_written() -> None:
    w = World("a-0", "a-1", "a-2", "single", plugins=(Unwritable,), nodes=2)
    found = {name: w.node_for(name) for name in ("a-0", "a-1", "a-2")}
    errors = await asyncio.gather(*(w.bind(name, node_name) for name, node_name in found.items()))
    assert errors[:2] == ["", ""]
    assert "busy" in errors[2]
    assert w.assumed == {"a-2"}
    assert len(w.extender.jobs.held) == 1
    assert w.node_for("a-2") == found["a-2"]
    assert await w.bind("a-2", found["a-2"]) == ""
    assert w.is_clean()


async def test_nothing_is_held_for_a_pod_that_is_gone_when_its_binding_cannot_be_written() -> None:
    w = World("a-0", "a-1", "a-2", plugins=(Unwritable,))
    found = {name: w.node_for(name) for name in ("a-0", "a-1", "a-2")}
    binder = w.plugin(Unwritable)
    write, reached = asyncio.Event(), asyncio.Event()

    async def bind(state: CycleState, pod: Pod, binding: Binding) -> Status:
        reached.set()
        await write.wait()
        return await Unwritable.bind(binder, state, pod, binding)

    binder.bind = bind
    binds = [asyncio.ensure_future(w.bind(name, node_name)) for name, node_name in found.items()]
    await reached.wait()
    w.delete("a-2")
    write.set()
    await asyncio.gather(*binds)
    assert w.is_clean()


async def test_another_offered_node_is_taken_while_the_others_keep_theirs() -> None:
    w = World("a-0", "a-1")
    found = {name: w.node_for(name) for name in ("a-0", "a-1")}
    others = [name for name in w.names if name != found["a-1"]]
    moved = w.node_for("a-1", others)
    assert moved in others
    assert w.together.moved == ["a-1"]
    assert w.node_for("a-0") == found["a-0"]
    assert w.assumed == {"a-0", "a-1"}
    errors = await asyncio.gather(w.bind("a-0", found["a-0"]), w.bind("a-1", moved))
    assert errors == ["", ""]


async def test_a_pod_that_fits_on_no_offered_node_ends_the_plan() -> None:
    w = World("a-0", "a-1", "a-2", "a-3", "a-4", "a-5")
    found = {name: w.node_for(name) for name in sorted(f"a-{i}" for i in range(6))}
    others = [name for name in w.names if name != found["a-5"]]
    answer = w.filter("a-5", others)
    assert not answer["NodeNames"]
    assert "is to be planned again" in next(iter(answer["FailedAndUnresolvableNodes"].values()))
    assert w.is_clean()


async def test_the_bind_of_another_node_than_planned_ends_the_plan() -> None:
    w = World("a-0", "a-1")
    planned = w.node_for("a-0")
    other = next(name for name in w.names if name != planned)
    task = asyncio.ensure_future(w.bind("a-0", other))
    await asyncio.sleep(0.01)
    assert w.nodes.placed_on("uid-a-0") == other
    assert not len(w.extender.jobs.held)
    w.extender.close("end")
    assert await task == "end"


async def test_planned_nodes_are_kept_even_if_they_are_not_offered() -> None:
    w = World("a-0", "a-1", plugins=(OnPlannedNodes,))
    assert w.node_for("a-0") == "n2"
    answer = w.filter("a-1", ["n0", "n2"])
    assert not answer["NodeNames"]
    assert "on node n1, which kube-scheduler has not offered" in answer["FailedAndUnresolvableNodes"]["n0"]
    assert w.node_for("a-1") == "n1"


async def test_the_first_pod_may_be_planned_on_a_node_that_is_not_offered() -> None:
    w = World("a-0", "a-1", plugins=(OnPlannedNodes,))
    assert not w.filter("a-0", ["n0"])["NodeNames"]
    assert w.node_for("a-1", ["n1"]) == "n1"
    assert w.node_for("a-0") == "n2"


async def test_closing_releases_everything() -> None:
    w = World("a-0", "a-1")
    w.node_for("a-0")
    w.extender.close("shutting down")
    assert w.is_clean()


async def test_a_repeated_filter_call_of_a_pod_answers_the_same_node() -> None:
    w = World("a-0", "a-1")
    assert len({w.node_for("a-0") for _ in range(5)}) == 1


async def test_a_plugin_that_raises_while_planning_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    w = World("a-0", "a-1")
    calls = []

    def reserve(state: CycleState, pod: Pod, node_name: str) -> Status:
        calls.append(pod.metadata.name)
        if len(calls) == 2:
            raise RuntimeError("broken")
        return SUCCESS

    monkeypatch.setattr(w.together, "reserve", reserve)
    assert "broken" in w.filter("a-0")["Error"]
    assert w.is_clean()


async def test_a_pod_is_counted_from_filter_to_reserve() -> None:
    w = World("single", plugins=(Counts,))
    counts = w.plugin(Counts)
    w.filter("single")
    assert counts.counted == {"single"}
    assert await w.bind("single", "n0") == ""
    assert counts.counted == set()


async def test_a_counted_pod_is_no_longer_counted_once_it_is_deleted() -> None:
    w = World("single", plugins=(Counts,))
    w.filter("single")
    w.delete("single")
    assert w.plugin(Counts).counted == set()


class PreemptsForJobs(Plugin, PostFilter):
    """Records for which pods it is to preempt."""

    name = "PreemptsForJobs"
    beside_kube_scheduler = True

    def __init__(self, args, handle) -> None:
        super().__init__(args, handle)
        self.asked: list[tuple[str, str]] = []

    async def post_filter(self, state, pod, outcome):
        self.asked.append((pod.metadata.name, outcome.message()))
        return None, Status.unschedulable("nothing to evict")


@pytest.mark.parametrize("trigger", ["filter", "preempt"])
async def test_plugins_preempt_for_the_pod_of_a_job_that_did_not_fit(trigger: str) -> None:
    w = World(*(f"a-{i}" for i in range(7)), plugins=(PreemptsForJobs,))
    plugin = w.plugin(PreemptsForJobs)
    task = asyncio.ensure_future(w.extender.post_filters.run())
    await asyncio.sleep(0)
    if trigger == "filter":
        w.why_not("a-0")
    else:
        proposal = {"Pod": pod_document("a-0"), "NodeNameToMetaVictims": {"n0": {"Pods": []}}}
        answer = json.loads(w.extender.preempt(json.dumps(proposal).encode()))
        assert answer["NodeNameToMetaVictims"] == {}
    async with asyncio.timeout(PATIENCE):
        while not plugin.asked:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ((name, message),) = plugin.asked
    assert name == "a-6"
    assert "0/3 nodes are available: 3 Insufficient cpu" in message
    assert w.is_clean()


async def test_all_pods_of_a_job_are_bound_at_once_behind_the_gate() -> None:
    w = World("a-0", "a-1", "a-2", gates=FeatureGates(SPECS, {INLINE_BATCH_SCHEDULE: True}))
    planned = w.node_for("a-1")
    store = w.cluster.store(Pod)
    async with asyncio.timeout(PATIENCE):
        while not all(each.spec.node_name for each in store):
            await asyncio.sleep(0.001)
    assert await w.bind("a-1", planned) == ""
    assert w.is_clean()
    assert not len(w.extender.attempts)


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_plan_that_is_carried_out_at_once_holds_as_a_whole(at_once: bool) -> None:
    gates = FeatureGates(SPECS, {INLINE_BATCH_SCHEDULE: at_once})
    w = World("a-0", "a-1", "a-2", plugins=(OnPlannedNodes,), gates=gates)
    w.together.at_least = 2
    w.cluster.store(Pod).apply(pod("full", cpu="2", node_name="n0"))
    if at_once:
        message = w.why_not("a-0")
        assert message.startswith("2 of 3 pods of a fit; pod default/a-2 does not: ")
        assert w.is_clean()
    else:
        assert w.node_for("a-0") == "n2"
        assert w.assumed == {"a-0", "a-1"}


async def test_the_job_of_a_pod_with_a_claim_is_left_to_kube_scheduler() -> None:
    w = World("a-0", gates=FeatureGates(SPECS, {INLINE_BATCH_SCHEDULE: True}))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    w.cluster.store(Pod).apply(pod("a-1", volumes=volumes))
    w.node_for("a-0")
    await asyncio.sleep(0.01)
    assert w.assumed == {"a-0", "a-1"}
    assert len(w.extender.jobs.held) == 2
