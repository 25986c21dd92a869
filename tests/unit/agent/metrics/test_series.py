from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.agent.interface import Aggregation, MetricKind
from koordpy.agent.metrics.blocks import BLOCK_BYTES, POINTS
from koordpy.agent.metrics.cache import SERIES_BYTES, MetricCache
from koordpy.lib.clock import FakeClock

START = datetime(2026, 1, 1, tzinfo=UTC)
ZERO = int(START.timestamp() * 1000)
MINUTES = MetricKind("some_usage", ("pod_uid",), "cores", timedelta(minutes=5))


def cache_with(kind=MINUTES, **limits):
    clock = FakeClock(START)
    cache = MetricCache(clock, **limits)
    cache.declare(kind)
    return cache, clock


def pod(cache, uid="u"):
    return cache.series(MINUTES.name, {"pod_uid": uid})


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.integers(0, 3000), min_size=1, max_size=300),
    window=st.tuples(st.integers(-1000, 400_000), st.integers(-1000, 400_000)),
)
def test_a_window_has_exactly_the_points_in_it(steps, window):
    cache, _ = cache_with(MetricKind(MINUTES.name, ("pod_uid",), "cores", timedelta(hours=1)))
    series, at, expected = pod(cache), ZERO, []
    for number, step in enumerate(steps):
        at += step
        series.append(number, at)
        expected.append((at, float(number)))
    start, end = ZERO + min(window), ZERO + max(window)
    times, values = series.between(start, end)
    assert list(zip(times, values, strict=True)) == [p for p in expected if start <= p[0] <= end]
    last = [p for p in expected if start <= p[0] <= end]
    newest = [value for time, value in last if time == last[-1][0]]
    assert series.last_between(start, end) == (newest[0] if newest else None)


@settings(max_examples=40, deadline=None)
@given(times=st.lists(st.integers(0, 50_000), min_size=1, max_size=200))
def test_late_points_are_put_in_their_place(times):
    cache, clock = cache_with()
    clock.advance(60)
    series = pod(cache)
    for time in times:
        series.append(time, ZERO + time)
    assert series.between(ZERO, ZERO + 60_000) == (
        [ZERO + t for t in sorted(times)],
        sorted(map(float, times)),
    )


def test_a_point_more_than_a_minute_late_is_dropped():
    cache, clock = cache_with()
    clock.advance(120)
    series = pod(cache)
    series.append(1, ZERO + 100_000)
    series.append(2, ZERO + 30_000)
    assert series.between(ZERO, ZERO + 200_000)[1] == [1]


def test_points_of_the_future_go_when_the_clock_was_set_back():
    cache, clock = cache_with()
    series = pod(cache)
    for second in range(300):
        series.append(second, ZERO + second * 1000)
    clock.set(START + timedelta(seconds=100))
    series.append(7, ZERO + 100_500)
    assert series.between(ZERO, ZERO + 400_000)[1] == [*map(float, range(101)), 7]


def test_values_that_are_not_finite_are_dropped():
    cache, _ = cache_with()
    series = pod(cache)
    for value in (1.0, float("nan"), float("inf"), 2.0):
        series.append(value, ZERO)
    assert series.between(ZERO, ZERO)[1] == [1, 2]


def test_a_ring_keeps_its_retention_and_at_most_a_block_more():
    cache, _ = cache_with()
    series = pod(cache)
    for second in range(5000):
        series.append(second, ZERO + second * 1000)
    assert 300 <= series.point_count <= 300 + 2 * POINTS
    assert series.between(ZERO + 4_700_000, ZERO + 5_000_000)[1] == list(range(4700, 5000))


def test_a_pause_longer_than_a_block_can_express_starts_a_new_one():
    cache, _ = cache_with(MetricKind(MINUTES.name, ("pod_uid",), "cores", timedelta(hours=12)))
    series = pod(cache)
    series.append(1, ZERO)
    series.append(2, ZERO + 2**32)
    assert series.between(ZERO + 2**32, ZERO + 2**32)[1] == [2]


def test_seconds_are_cut_to_milliseconds_without_the_error_of_floating_point():
    cache, _ = cache_with()
    series = pod(cache)
    for milli in range(1000):
        series.add(milli, (ZERO + milli) / 1000)
    assert series.between(ZERO, ZERO + 999)[0] == [ZERO + milli for milli in range(1000)]


def test_a_series_that_was_collected_starts_anew():
    cache, clock = cache_with()
    series = pod(cache)
    series.append(1, ZERO)
    clock.advance(3600)
    cache.collect()
    assert cache.blocks.used == 0
    other = pod(cache)
    other.append(2, ZERO + 3_600_000)
    series.append(3, ZERO + 3_600_001)
    hour = START + timedelta(hours=1)
    window = (hour, hour + timedelta(seconds=1))
    assert cache.query(MINUTES.name, Aggregation.COUNT, *window, {"pod_uid": "u"}) == 2


def test_a_closed_series_gives_its_memory_back():
    cache, _ = cache_with()
    series = pod(cache)
    for second in range(200):
        series.append(1, ZERO + second * 1000)
    assert cache.blocks.used == 3
    series.close()
    assert cache.blocks.used == 0
    assert series.between(ZERO, ZERO + 10**6) == ([], [])


def test_beyond_the_limit_series_of_gone_objects_lose_their_points_first():
    limit = 20 * BLOCK_BYTES + 4 * SERIES_BYTES
    cache, _ = cache_with(max_bytes=limit)
    gone = pod(cache, "gone")
    for second in range(POINTS * 3):
        gone.append(1, ZERO + second * 1000)
    live = [pod(cache, uid) for uid in "abc"]
    for second in range(POINTS * 3, POINTS * 3 + 290):
        for series in live:
            series.append(1, ZERO + second * 1000)
    assert cache.bytes_used <= limit
    assert [series.point_count for series in (gone, *live)] == [252, 290, 290, 290]
    more = [pod(cache, uid) for uid in "de"]
    for second in range(542, 700):
        for series in (*live, *more):
            series.append(1, ZERO + second * 1000)
    assert gone.point_count == 0
    assert cache.bytes_used <= limit
    assert cache.evicted


def test_beyond_the_limit_the_oldest_points_of_all_go_next():
    limit = 6 * BLOCK_BYTES + 2 * SERIES_BYTES
    cache, _ = cache_with(max_bytes=limit)
    live = [pod(cache, uid) for uid in "ab"]
    for second in range(1000):
        for series in live:
            series.append(second, ZERO + second * 1000)
    assert cache.bytes_used <= limit
    for series in live:
        assert series.between(ZERO + 900_000, ZERO + 1_000_000)[1] == list(range(900, 1000))
