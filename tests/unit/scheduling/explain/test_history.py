"""The history of a pod: what is recorded, in which order, and how much is kept."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.explain.history import CYCLES, STEPS, Histories, Life, StepModel, What
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface import Bind, Binding, Filter, Permit, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..worlds import bind_body, extender, filter_body, node, pod, pod_document, world

GATE: dict[str, Any] = {"schedulingGates": [{"name": "example.com/wait"}]}


class OnlyA(Plugin, Filter):
    name = "OnlyA"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if node.name == "a" else Status.unschedulable("is not a")


class Holds(Plugin, Permit):
    name = "Holds"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status.wait(60)


class Refuses(Plugin, Bind):
    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        return Status.failed("the API server is on fire")


def told(message: str, reason: str = "Unschedulable") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"status": {"conditions": [condition]}}


def made(*classes: type[Plugin]) -> Extender:
    return extender(world([node("a"), node("b")]), *(classes or (OnlyA,)))


def clock(of: Extender) -> FakeClock:
    assert isinstance(of.clock, FakeClock)
    return of.clock


def show(of: Extender, *pods: Pod) -> None:
    for each in pods:
        of.handle.cluster.store(Pod).apply(each)


def life(of: Extender, name: str = "p") -> Life:
    return of.histories.lives("default", name)[0]


def steps(of: Extender, name: str = "p") -> list[StepModel]:
    return life(of, name).models()


def whats(of: Extender, name: str = "p") -> list[str]:
    return [step.what for step in steps(of, name)]


async def test_every_step_from_the_first_observation_to_the_binding_is_recorded_with_its_time() -> None:
    it = made()
    show(it, pod("p", **GATE))
    clock(it).advance(3)
    show(it, pod("p"))
    clock(it).advance(1)
    it.filter(filter_body(pod_document("p"), ["a", "b"]))
    clock(it).advance(0.5)
    assert json.loads(await it.bind(bind_body(pod_document("p"), "a")))["Error"] == ""
    found = steps(it)
    assert [step.what for step in found] == ["seen", "gated", "ungated", "filtered", "binding", "bound"]
    assert [step.after_seconds for step in found] == [0, 0, 3, 1, 0.5, 0]
    filtered = found[3]
    assert (filtered.feasible_nodes, filtered.evaluated_nodes) == (1, 2)
    assert filtered.refused_by == {"OnlyA": 1}
    assert (found[1].message, found[-1].node) == ("example.com/wait", "a")
    assert found[0].time == "2026-03-01T12:00:00.000000Z"


def test_a_rejection_has_a_reason_and_the_gap_to_the_next_attempt_shows_the_backoff() -> None:
    it = made()
    show(it, pod("p"))
    it.filter(filter_body(pod_document("p"), ["b"]))
    clock(it).advance(7)
    it.filter(filter_body(pod_document("p"), ["a"]))
    seen, refused, passed = steps(it)
    assert refused.what == "unschedulable"
    assert refused.message == "0/1 nodes are available: 1 is not a."
    assert (passed.what, passed.after_seconds) == ("filtered", 7)
    assert life(it).cycles == 2
    assert seen.what == "seen"


def test_repeated_attempts_are_counted_in_one_step() -> None:
    it = made()
    show(it, pod("p"))
    for _ in range(1000):
        clock(it).advance(10)
        it.filter(filter_body(pod_document("p"), ["b"]))
    _, refused = steps(it)
    assert (refused.times, life(it).cycles) == (1000, 1000)
    assert refused.time == "2026-03-01T12:00:10.000000Z"
    assert refused.last_time == "2026-03-01T14:46:40.000000Z"


def test_what_kube_scheduler_reports_between_attempts_is_counted_with_them() -> None:
    it = made()
    show(it, pod("p"))
    for attempt in range(5):
        it.filter(filter_body(pod_document("p"), ["b"]))
        show(it, pod("p", **told("0/2 nodes are available: 1 is not a, 1 too small.")))
        show(it, pod("p", priority=attempt))
    assert whats(it) == ["seen", "unschedulable", "reported"]
    assert [step.times for step in steps(it)] == [1, 5, 5]
    assert "too small" in steps(it)[2].message


async def test_a_wait_at_permit_and_its_end_are_recorded() -> None:
    it = made(Holds)
    show(it, pod("p"))
    it.filter(filter_body(pod_document("p"), ["a", "b"]))
    bind = asyncio.ensure_future(it.bind(bind_body(pod_document("p"), "b")))
    while not len(it.handle.waiting_pods):
        await asyncio.sleep(0)
    clock(it).advance(30)
    waiting = it.handle.waiting_pods.get("uid-p")
    assert waiting is not None
    waiting.allow("Holds")
    await bind
    assert whats(it) == ["seen", "filtered", "binding", "waiting", "allowed", "bound"]
    assert steps(it)[3].message == "Holds (at most 60 s)"
    assert steps(it)[4].after_seconds == 30


async def test_a_bind_error_is_recorded_and_the_next_attempt_follows() -> None:
    it = made(OnlyA, Refuses)
    show(it, pod("p"))
    it.filter(filter_body(pod_document("p"), ["a"]))
    await it.bind(bind_body(pod_document("p"), "a"))
    it.filter(filter_body(pod_document("p"), ["a"]))
    assert whats(it) == ["seen", "filtered", "binding", "failed", "filtered"]
    failed = steps(it)[3]
    assert failed.node == "a"
    assert "on fire" in failed.message


def test_a_pod_without_a_profile_is_recorded_with_the_rejection() -> None:
    it = made()
    document = pod_document("p", schedulerName="other")
    it.filter(filter_body(document, ["a"]))
    assert whats(it) == ["seen", "error"]
    assert "no profile for schedulerName 'other'" in steps(it)[1].message


def test_a_binding_without_a_bind_call_is_foreign() -> None:
    it = made()
    show(it, pod("never"), pod("asked"))
    it.filter(filter_body(pod_document("asked"), ["a"]))
    show(it, pod("never", node_name="b"), pod("asked", node_name="b"))
    assert whats(it, "never") == ["seen", "bound-by-others"]
    assert "never called" in steps(it, "never")[-1].message
    assert whats(it, "asked") == ["seen", "filtered", "bound-by-others"]
    assert "not called to bind" in steps(it, "asked")[-1].message
    assert it.histories.bound_elsewhere == {"default-scheduler": 2}


def test_a_pod_that_ends_without_a_node_no_longer_waits() -> None:
    it = made()
    show(it, pod("p"), pod("first-seen-failed", status={"phase": "Failed"}))
    show(it, pod("p", status={"phase": "Failed", "reason": "DeadlineExceeded"}))
    assert whats(it) == ["seen", "ended"]
    assert steps(it)[-1].message == "DeadlineExceeded"
    assert life(it).is_over
    assert it.histories.lives("default", "first-seen-failed") == []
    for number in range(it.histories._most):
        show(it, pod(f"waiting-{number}"))
    assert it.histories.lives("default", "p") == []
    assert len(it.histories.lives("default", "waiting-0")) == 1


def test_in_light_mode_kube_schedulers_own_binding_is_the_expected_end() -> None:
    cluster = world([node("a")])
    histories = Histories(Handle(cluster), is_light=True)
    pods = cluster.store(Pod)
    pods.apply(pod("p"))
    histories.broke(pod("p"), "any call")
    pods.apply(pod("p", node_name="a"))
    assert [step.what for step in histories.lives("default", "p")[0].steps][-1] is What.BOUND
    assert not histories.bound_elsewhere


def test_nominations_and_deletions_are_recorded() -> None:
    it = made()
    show(it, pod("p"))
    show(it, pod("p", status={"nominatedNodeName": "b"}))
    document = pod_document("p", status={"nominatedNodeName": "b"})
    document["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    from koordpy.api.scheme import decode

    show(it, decode(Pod, document))
    it.handle.cluster.store(Pod).discard("default/p")
    assert whats(it) == ["seen", "nominated", "deleting", "deleted"]


def test_pods_bound_before_the_start_have_no_history() -> None:
    it = made()
    show(it, pod("old", node_name="a"))
    assert it.histories.lives("default", "old") == []
    assert len(it.histories) == 0


def test_a_pod_that_reuses_a_name_has_a_separate_history() -> None:
    it = made()
    show(it, pod("p", uid="one"))
    clock(it).advance(1)
    show(it, pod("p", uid="two"))
    assert [found.pod.metadata.uid for found in it.histories.lives("default", "p")] == ["two", "one"]


def test_steps_are_limited_and_the_first_observation_is_kept() -> None:
    it = made()
    show(it, pod("p"))
    began = clock(it).now()
    for i in range(200):
        clock(it).advance(1)
        it.filter(filter_body(pod_document("p"), ["b"] * (i % 3 + 1)))
    assert len(life(it).steps) == STEPS
    assert life(it).dropped == 201 - STEPS
    assert life(it).first_seen == began
    assert life(it).cycles == 200


def test_pods_are_limited_and_waiting_ones_are_dropped_last() -> None:
    cluster = world([node("a")])
    histories = Histories(Handle(cluster), pods=10)
    pods = cluster.store(Pod)
    for i in range(10):
        pods.apply(pod(f"waits-{i}"))
    pods.apply(pod("waits-9", node_name="a"))
    for i in range(3):
        pods.apply(pod(f"late-{i}"))
    assert len(histories) == 10
    names = {found.pod.metadata.name for found in histories}
    assert names == {f"waits-{i}" for i in range(2, 9)} | {f"late-{i}" for i in range(3)}


def test_pods_that_the_watch_never_showed_are_forgotten_before_those_that_wait() -> None:
    cluster = world([node("a")])
    histories = Histories(Handle(cluster), pods=3)
    for name in ("unseen", "early"):
        histories.broke(pod(name), "any call")
    pods = cluster.store(Pod)
    for name in ("early", "late", "last"):
        pods.apply(pod(name))
    assert {found.pod.metadata.name for found in histories} == {"early", "late", "last"}
    [early] = histories.lives("default", "early")
    assert [step.what for step in early.steps] == [What.SEEN, What.ERROR]
    pods.apply(pod("early", node_name="a"))
    assert early.is_over


def test_a_limit_of_zero_records_nothing() -> None:
    cluster = world([node("a")])
    histories = Histories(Handle(cluster), pods=0)
    cluster.store(Pod).apply(pod("p"))
    histories.broke(pod("p"), "x")
    assert len(histories) == 0
    assert histories.calls == 1


@pytest.mark.parametrize("what", [What.BOUND, What.BOUND_BY_OTHERS, What.ENDED, What.DELETED])
def test_a_history_ends_with_its_last_step(what: What) -> None:
    it = made()
    show(it, pod("p"))
    found = life(it)
    assert not found.is_over
    found.add(type(found.steps[0])(clock(it).now() + timedelta(seconds=1), what))
    assert found.is_over


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["show", "gate", "filter", "refuse", "report", "bind", "fail", "place", "delete"]),
        st.integers(0, 3),
    ),
    max_size=120,
)


@given(events=EVENTS, limit=st.integers(0, 3))
@example(events=[("refuse", 0), ("report", 0), ("refuse", 0)], limit=1)
def test_histories_stay_bounded_ordered_and_complete(events: list[tuple[str, int]], limit: int) -> None:
    cluster = world([node("a"), node("b")])
    histories = Histories(Handle(cluster), pods=limit)
    pods = cluster.store(Pod)
    time = cluster.clock
    assert isinstance(time, FakeClock)
    nodes = cluster.nodes.all()
    calls = 0
    for what, number in events:
        time.advance(1)
        name = f"p{number}"
        uid = f"uid-{name}"
        match what:
            case "show":
                pods.apply(pod(name))
            case "gate":
                pods.apply(pod(name, **GATE))
            case "filter" | "refuse":
                calls += 1
                kept = 2 if what == "filter" else 0
                outcome = FilterOutcome(nodes, np.full(2, bool(kept)))
                histories.filtered(pod(name), time.now(), outcome, kept, "" if kept else "no")
            case "report":
                pods.apply(pod(name, **told("no room")))
            case "bind":
                histories.binding(uid, "a")
                histories.bind_ended(uid, "a", "")
            case "fail":
                histories.bind_ended(uid, "a", "broken")
            case "place":
                pods.apply(pod(name, node_name="b"))
            case "delete":
                pods.discard(f"default/{name}")
    assert histories.calls == calls
    assert len(histories) <= limit
    for found in histories:
        assert len(found.steps) <= STEPS
        assert all(step.after_seconds >= 0 for step in found.models())
        cycles = sum(step.times for step in found.steps if step.what in CYCLES)
        assert cycles <= found.cycles
        assert found.dropped or cycles == found.cycles
        assert found.steps[0].what is What.SEEN or found.dropped
