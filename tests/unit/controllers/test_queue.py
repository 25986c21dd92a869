"""The rules of client-go's work queues: once at a time, never lost, later after failures."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from koordpy.controllers.queue import RetryLimiter, WorkQueue
from koordpy.lib.clock import FakeClock
from tests.eventually import PATIENCE


def clock() -> FakeClock:
    return FakeClock(datetime(2026, 1, 1, tzinfo=UTC))


def test_a_key_that_waits_is_in_the_queue_once() -> None:
    queue = WorkQueue("q", clock())
    for key in ("a", "b", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert [queue.pop(), queue.pop(), queue.pop()] == ["a", "b", None]


def test_a_key_added_while_in_work_comes_back_when_that_is_done() -> None:
    queue = WorkQueue("q", clock())
    queue.add("a")
    assert queue.pop() == "a"
    queue.add("a")
    queue.add("a")
    assert queue.pop() is None
    queue.done("a")
    assert queue.pop() == "a"
    queue.done("a")
    assert queue.pop() is None


def test_of_several_later_times_the_earliest_counts() -> None:
    time = clock()
    queue = WorkQueue("q", time)
    queue.add_after("a", 10)
    queue.add_after("a", 3)
    queue.add_after("a", 20)
    time.advance(2.9)
    assert queue.pop() is None
    time.advance(0.1)
    assert queue.pop() == "a"
    queue.done("a")
    time.advance(60)
    assert queue.pop() is None


def test_a_failing_key_waits_longer_each_time_until_it_is_forgotten() -> None:
    limiter = RetryLimiter(clock())
    assert [limiter.when("a") for _ in range(3)] == pytest.approx([0.005, 0.01, 0.02])
    assert limiter.when("b") == pytest.approx(0.005)
    assert limiter.failures("a") == 3
    limiter.forget("a")
    assert limiter.failures("a") == 0
    assert limiter.when("a") == pytest.approx(0.005)


def test_waiting_times_are_bounded_and_all_keys_share_a_rate() -> None:
    limiter = RetryLimiter(clock(), rate=1e9, burst=10**6)
    assert max(limiter.when("a") for _ in range(100)) == 1000.0
    shared = RetryLimiter(clock(), rate=10, burst=2)
    assert [shared.when(key) for key in "abcd"] == pytest.approx([0.005, 0.005, 0.1, 0.2])


def test_a_rate_limited_key_is_added_when_its_time_has_come() -> None:
    time = clock()
    queue = WorkQueue("q", time)
    queue.add_rate_limited("a")
    assert queue.failures("a") == 1
    assert queue.pop() is None
    time.advance(0.005)
    assert queue.pop() == "a"
    queue.forget("a")
    assert queue.failures("a") == 0


def test_a_key_that_events_add_while_it_fails_is_retried_as_early_as_without_them() -> None:
    time = clock()
    queue = WorkQueue("q", time)

    def fail() -> None:
        assert queue.pop() == "a"
        queue.add_rate_limited("a")
        queue.done("a")

    queue.add("a")
    fail()
    for _ in range(30):
        queue.add("a")
        fail()
    assert queue.failures("a") == 1
    time.advance(0.005)
    fail()
    assert queue.failures("a") == 2
    time.advance(0.0099)
    assert queue.pop() is None
    time.advance(0.0002)
    assert queue.pop() == "a"


def test_a_failure_after_a_success_is_retried_before_what_is_due_later() -> None:
    time = clock()
    queue = WorkQueue("q", time)
    queue.add("a")
    queue.pop()
    queue.done("a")
    queue.add_after("a", 60)
    queue.add("a")
    assert queue.pop() == "a"
    queue.add_rate_limited("a")
    queue.done("a")
    time.advance(0.005)
    assert queue.pop() == "a"


async def test_waiters_are_woken_by_a_key() -> None:
    queue = WorkQueue("q", clock())
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    async with asyncio.timeout(PATIENCE):
        assert sorted(await asyncio.gather(*waiting)) == ["a", "b"]


def test_what_dashboards_read() -> None:
    time = clock()
    queue = WorkQueue("measured", time)

    def sample(name: str) -> float | None:
        return REGISTRY.get_sample_value(name, {"name": "measured", "controller": "measured"})

    queue.add("a")
    queue.add("b")
    queue.add_after("c", 5)
    assert (sample("workqueue_adds_total"), sample("workqueue_depth")) == (2, 2)
    assert sample("workqueue_retries_total") == 1
    queue.pop()
    time.advance(2)
    assert sample("workqueue_unfinished_work_seconds") == 2
    assert sample("workqueue_longest_running_processor_seconds") == 2
    queue.done("a")
    assert sample("workqueue_work_duration_seconds_sum") == 2
    assert sample("workqueue_queue_duration_seconds_count") == 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "after", "pop", "done", "tick"]), st.sampled_from("abc")),
        max_size=60,
    )
)
def test_no_key_is_lost_or_worked_on_twice_at_a_time(steps: list[tuple[str, str]]) -> None:
    time = clock()
    queue = WorkQueue("q", time)
    in_work: set[str] = set()
    owed: Counter[str] = Counter()  # keys added since they were last processed
    for step, key in steps:
        if step == "add":
            queue.add(key)
            owed[key] = 1
        elif step == "after":
            queue.add_after(key, 1)
            owed[key] = 1
        elif step == "tick":
            time.advance(1)
        elif step == "pop":
            taken = queue.pop()
            if taken is not None:
                assert taken not in in_work
                in_work.add(taken)
                owed[taken] = 0
        elif key in in_work:
            queue.done(key)
            in_work.discard(key)
    late = {key for step, key in steps if step == "after"}
    for key in list(in_work):
        queue.done(key)
    time.advance(2)
    found = set()
    while (taken := queue.pop()) is not None:
        found.add(taken)
    assert {key for key, count in owed.items() if count} <= found
    assert found <= {key for key, count in owed.items() if count} | late
