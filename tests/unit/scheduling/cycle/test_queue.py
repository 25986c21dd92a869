from datetime import UTC, datetime

import pytest

from koordpy.api.core import Pod, PodSchedulingGate
from koordpy.api.scheme import decode
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.cycle.queue import FLUSH_AFTER, SchedulingQueue


def pod(name, priority=0):
    meta = {"name": name, "namespace": "d", "uid": name}
    return decode(Pod, {"metadata": meta, "spec": {"priority": priority}})


@pytest.fixture
def clock():
    return FakeClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def queue(clock):
    return SchedulingQueue(clock)


def popped(queue):
    item = queue.pop()
    return None if item is None else item.pod.metadata.name


def test_higher_priority_comes_first_then_the_earlier_pod(queue, clock):
    for name, priority in (("a", 1), ("b", 5), ("c", 1)):
        queue.add(pod(name, priority))
        clock.advance(1)
    assert [popped(queue) for _ in range(4)] == ["b", "a", "c", None]


def test_a_rejected_pod_waits_for_a_change_and_its_backoff(queue, clock):
    queue.add(pod("a"))
    queue.requeue(queue.pop(), rejected=True)
    clock.advance(100)
    assert popped(queue) is None
    queue.move_all()
    assert popped(queue) == "a"


def test_a_change_while_the_pod_was_in_flight_is_not_lost(queue, clock):
    queue.add(pod("a"))
    item = queue.pop()
    queue.move_all()
    queue.requeue(item, rejected=True)
    assert queue.pool_of("a") == "backoff"
    clock.advance(1)
    assert popped(queue) == "a"


def test_backoff_doubles_up_to_the_maximum(queue, clock):
    queue.add(pod("a"))
    waits = []
    for _ in range(6):
        queue.requeue(queue.pop(), rejected=False)
        waits.append(queue.ready_in())
        clock.advance(waits[-1])
    assert waits == [1, 2, 4, 8, 10, 10]


def test_an_unschedulable_pod_is_retried_after_five_minutes(queue, clock):
    queue.add(pod("a"))
    queue.requeue(queue.pop(), rejected=True)
    assert queue.ready_in() == FLUSH_AFTER
    clock.advance(FLUSH_AFTER + 1)
    assert popped(queue) == "a"


def test_a_deleted_pod_never_comes_out(queue):
    queue.add(pod("a"))
    queue.delete("a")
    assert popped(queue) is None
    queue.add(pod("b"))
    item = queue.pop()
    queue.delete("b")
    queue.requeue(item, rejected=False)
    assert len(queue) == 0


def test_an_update_keeps_the_place_and_brings_the_new_object(queue, clock):
    queue.add(pod("a"))
    clock.advance(1)
    queue.add(pod("b"))
    queue.update(pod("a", 0))
    assert popped(queue) == "a"


def test_a_pod_in_flight_is_not_queued_twice(queue):
    queue.add(pod("a"))
    queue.pop()
    queue.add(pod("a"))
    assert popped(queue) is None


def test_a_placed_pod_is_forgotten(queue):
    queue.add(pod("a"))
    queue.pop()
    queue.done("a")
    assert queue.pool_of("a") is None


def test_a_placement_moves_back_only_pods_that_it_may_help(queue, clock):
    for name, helped in (("a", False), ("b", True)):
        queue.add(pod(name))
        queue.requeue(queue.pop(), rejected=True, placements_help=helped)
    clock.advance(100)
    queue.placed()
    assert [queue.pool_of(name) for name in "ab"] == ["unschedulable", "active"]


def test_a_pod_that_changed_in_flight_is_retried(queue, clock):
    queue.add(pod("a"))
    item = queue.pop()
    queue.add(pod("a"))
    queue.requeue(item, rejected=True)
    assert queue.pool_of("a") == "backoff"


def test_a_gated_pod_is_checked_again_when_something_changes(clock):
    gates = {"a"}
    queue = SchedulingQueue(clock, admits=lambda pod: pod.metadata.name not in gates)
    queue.add(pod("a"))
    assert (queue.pool_of("a"), popped(queue)) == ("gated", None)
    gates.clear()
    queue.move_all()
    assert popped(queue) == "a"


def test_an_active_pod_can_be_picked_ahead_of_its_turn(queue):
    for name in "ab":
        queue.add(pod(name))
    assert queue.pick("b").pod.metadata.name == "b"
    assert [popped(queue), popped(queue)] == ["a", None]


def test_a_pod_can_be_picked_wherever_it_waits_but_not_in_flight_or_with_scheduling_gates(clock):
    queue = SchedulingQueue(clock, admits=lambda pod: pod.metadata.name == "unschedulable")
    for name in ("unschedulable", "gated"):
        queue.add(pod(name))
    popped = queue.pop()
    assert popped is not None
    queue.requeue(popped, rejected=True)
    assert queue.pool_of("unschedulable") == "unschedulable"
    for name in ("unschedulable", "gated"):
        picked = queue.pick(name)
        assert picked is not None
        assert picked.pod.metadata.name == name
        assert (queue.pool_of(name), queue.pick(name)) == ("in-flight", None)
    held = pod("held")
    held.spec.scheduling_gates.append(PodSchedulingGate("example.com/wait"))
    queue.add(held)
    assert (queue.pick("held"), queue.pick("unknown")) == (None, None)


def test_a_pod_that_any_change_may_help_is_retried_when_it_is_touched(queue):
    for name, anything_helps in (("a", True), ("b", False)):
        queue.add(pod(name))
        queue.requeue(queue.pop(), rejected=True, anything_helps=anything_helps)
        queue.touch(pod(name))
    assert queue.pool_of("a") == "backoff"
    assert queue.pool_of("b") == "unschedulable"


def test_a_pod_that_is_touched_in_flight_is_retried_if_any_change_may_help(queue):
    queue.add(pod("a"))
    item = queue.pop()
    queue.touch(pod("a"))
    queue.requeue(item, rejected=True, anything_helps=True)
    assert queue.pool_of("a") == "backoff"


def test_an_activated_pod_is_tried_at_once_whatever_it_waits_for(queue):
    queue.add(pod("a"))
    queue.requeue(queue.pop(), rejected=True)
    queue.activate("a")
    assert popped(queue) == "a"
    queue.activate("unknown")
    assert popped(queue) is None


def test_a_pod_activated_in_flight_is_retried_if_it_fails(queue, clock):
    queue.add(pod("a"))
    item = queue.pop()
    queue.activate("a")
    queue.requeue(item, rejected=True)
    clock.advance(1)
    assert popped(queue) == "a"
