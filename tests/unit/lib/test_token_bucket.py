from datetime import UTC, datetime

import pytest

from koordpy.lib.clock import FakeClock
from koordpy.lib.token_bucket import TokenBucket


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 1, 1, tzinfo=UTC))


def test_starts_full_and_then_follows_the_rate(clock: FakeClock) -> None:
    bucket = TokenBucket(2, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.advance(0.4)
    assert not bucket.take()
    clock.advance(0.1)
    assert bucket.take()
    clock.advance(60)
    assert sum(bucket.take() for _ in range(10)) == 3


def test_without_rate_and_burst_there_is_never_a_token(clock: FakeClock) -> None:
    bucket = TokenBucket(0, 0, clock)
    clock.advance(3600)
    assert not bucket.take()
    assert bucket.reserve() == float("inf")


def test_a_reservation_waits_behind_those_before_it(clock: FakeClock) -> None:
    bucket = TokenBucket(10, 1, clock)
    assert [bucket.reserve() for _ in range(3)] == pytest.approx([0, 0.1, 0.2])
    clock.advance(0.2)
    assert bucket.reserve() == pytest.approx(0.1)


def test_an_infinite_rate_never_lacks_a_token(clock: FakeClock) -> None:
    bucket = TokenBucket(float("inf"), 1, clock)
    assert all(bucket.take() for _ in range(5))


def test_a_new_rate_counts_from_now_on(clock: FakeClock) -> None:
    bucket = TokenBucket(1, 5, clock)
    for _ in range(5):
        bucket.take()
    clock.advance(2)
    bucket.set_rate(10)
    assert bucket.tokens == pytest.approx(2)
    clock.advance(0.1)
    assert bucket.tokens == pytest.approx(3)
