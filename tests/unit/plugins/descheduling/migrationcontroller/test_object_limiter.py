from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.lib.clock import FakeClock
from koordpy_plugins.descheduling.migrationcontroller import object_limiter
from koordpy_plugins.descheduling.migrationcontroller.args import MigrationControllerArgs
from koordpy_plugins.descheduling.migrationcontroller.object_limiter import ObjectLimiters

from .migrations import pod


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 1, 1, tzinfo=UTC))


def limiters(clock: FakeClock, replicas: int = 10, **given: Any) -> ObjectLimiters:
    args = MigrationControllerArgs.model_validate(given)
    return ObjectLimiters(args, lambda _: replicas, clock)


def per_second(kind: str, number: int, **more: Any) -> dict[str, Any]:
    return {"objectLimiters": {kind: {"duration": "1s", "maxMigrating": number, **more}}}


def test_by_default_ten_replicas_have_an_eviction_in_150_seconds(clock: FakeClock) -> None:
    found = limiters(clock)
    assert not found.exceeded(pod("a"))
    found.track(pod("a"))
    clock.advance(149)
    assert found.exceeded(pod("b"))
    assert found.reason_against(pod("b")) == (
        "the limiter of its workload allows no more evictions now (duration 5m0s)"
    )
    clock.advance(1.1)
    assert not found.exceeded(pod("b"))


def test_other_workloads_and_pods_without_one_are_not_affected(clock: FakeClock) -> None:
    found = limiters(clock)
    found.track(pod("a"))
    assert not found.exceeded(pod("b", owner="other"))
    assert not found.exceeded(pod("c", owner=""))


def test_namespaces_are_limited_by_number(clock: FakeClock) -> None:
    found = limiters(clock, **per_second("namespace", 10))
    found.track(pod("a"))
    assert found.exceeded(pod("b", owner="other"))
    assert not found.exceeded(pod("b", namespace="elsewhere"))
    clock.advance(0.11)
    assert not found.exceeded(pod("b"))


def test_a_burst_allows_several_at_once(clock: FakeClock) -> None:
    found = limiters(clock, **per_second("workload", 5, burst=2))
    found.track(pod("a"))
    assert not found.exceeded(pod("b"))
    found.track(pod("b"))
    assert found.exceeded(pod("c"))


def test_a_bucket_is_dropped_when_it_was_not_used_for_a_while(clock: FakeClock) -> None:
    found = limiters(clock, **per_second("workload", -1))
    found.track(pod("a"))
    clock.advance(1.4)
    assert found.exceeded(pod("a"))
    clock.advance(0.2)
    assert not found.exceeded(pod("a"))


def test_a_workload_of_unknown_size_is_not_counted(clock: FakeClock) -> None:
    def unknown(_: Pod) -> int:
        raise ValueError("unknown")

    found = ObjectLimiters(MigrationControllerArgs.model_validate({}), unknown, clock)
    found.track(pod("a"))
    assert not found.exceeded(pod("a"))


def test_the_number_of_buckets_is_bounded(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_limiter, "MAX_OBJECTS", 2)
    found = limiters(clock)
    for owner in "abc":
        found.track(pod("p", owner=owner))
    assert [found.exceeded(pod("p", owner=owner)) for owner in "abc"] == [False, True, True]
