from datetime import UTC, datetime, timedelta

import pytest

from koordpy.agent.interface import Aggregation, MetricError, MetricKind, Sample
from koordpy.agent.metrics.cache import MetricCache
from koordpy.lib.clock import FakeClock

START = datetime(2026, 1, 1, tzinfo=UTC)


def filled(values, kind="pod_cpu_usage", uid="u"):
    cache = MetricCache(FakeClock(START))
    properties = {"pod_uid": uid} if kind.startswith("pod") else {}
    cache.append(Sample(kind, v, START + timedelta(seconds=i), properties) for i, v in enumerate(values))
    return cache


def ask(cache, how, kind="pod_cpu_usage", **properties):
    return cache.query(kind, how, START, START + timedelta(hours=1), properties)


@pytest.mark.parametrize(
    ("how", "expected"), [("p90", 700), ("p50", 300), ("avg", 400), ("last", 800), ("count", 9)]
)
def test_nine_samples_are_aggregated_as_koordinator_does(how, expected):
    assert ask(filled([100 * i for i in range(9)]), Aggregation(how)) == expected


def test_a_percentile_of_ten_uses_single_precision():
    assert ask(filled(range(10)), Aggregation.P90) == 8


@pytest.mark.parametrize("how", ["avg", "p50", "p99", "last"])
def test_a_single_sample_is_its_own_aggregate(how):
    assert ask(filled([7]), Aggregation(how)) == 7


def test_no_sample_is_an_error_except_for_count():
    cache = filled([])
    assert ask(cache, Aggregation.COUNT) == 0
    with pytest.raises(MetricError, match="metric input is empty"):
        ask(cache, Aggregation.LAST)


def test_the_window_is_closed_on_both_ends():
    cache = filled([1, 2, 3, 4])
    window = (START + timedelta(seconds=1), START + timedelta(seconds=2))
    assert cache.query("pod_cpu_usage", Aggregation.COUNT, *window) == 2


def test_a_query_may_leave_properties_open_but_not_invent_them():
    cache = filled([1])
    cache.append([Sample("pod_cpu_usage", 5, START, {"pod_uid": "v"})])
    assert ask(cache, Aggregation.COUNT) == 2
    assert ask(cache, Aggregation.LAST, pod_uid="v") == 5
    with pytest.raises(MetricError, match="has no property 'node'"):
        ask(cache, Aggregation.LAST, node="n")


def test_a_batch_with_one_bad_sample_adds_nothing():
    cache = filled([])
    good = Sample("pod_cpu_usage", 1, START, {"pod_uid": "u"})
    with pytest.raises(MetricError, match="needs the properties"):
        cache.append([good, Sample("pod_cpu_usage", 1, START, {})])
    assert ask(cache, Aggregation.COUNT) == 0


def test_late_samples_are_put_in_their_place():
    cache = filled([])
    for second, value in ((2, 20.0), (1, 10.0), (3, 30.0)):
        cache.append([Sample("node_cpu_usage", value, START + timedelta(seconds=second), {})])
    assert ask(cache, Aggregation.LAST, "node_cpu_usage") == 30


def test_points_beyond_the_retention_are_dropped():
    clock = FakeClock(START)
    cache = MetricCache(clock, retention=timedelta(minutes=1))
    cache.append([Sample("node_cpu_usage", 1, START, {})])
    clock.advance(120)
    cache.collect()
    assert ask(cache, Aggregation.COUNT, "node_cpu_usage") == 0


def test_a_query_of_a_longer_window_makes_points_be_kept_longer_up_to_a_bound():
    clock = FakeClock(START)
    cache = MetricCache(clock, retention=timedelta(hours=2))
    clock.set(START + timedelta(hours=3))
    for hours, kept in ((0.5, 0.5), (1, 1), (3, 2)):
        with pytest.raises(MetricError):
            cache.query("node_be", Aggregation.AVG, clock.now() - timedelta(hours=hours), clock.now())
        assert cache.retention_milliseconds("node_be") == max(kept * 3600, 31 * 60) * 1000


def test_kinds_of_other_packages_are_declared_once_or_alike():
    cache = MetricCache(FakeClock(START))
    kind = MetricKind("my_latency", ("pod_uid",), "seconds", timedelta(minutes=1))
    cache.declare(kind)
    cache.declare(MetricKind("my_latency", ("pod_uid",), "seconds", timedelta(minutes=2)))
    assert cache.retention_milliseconds("my_latency") == 120_000
    with pytest.raises(
        MetricError, match=r"metric kind my_latency is declared with the properties \['pod'\]"
    ):
        cache.declare(MetricKind("my_latency", ("pod",), "seconds"))
    with pytest.raises(MetricError, match="node_cpu_usage"):
        cache.declare(MetricKind("node_cpu_usage", (), "percent"))
    with pytest.raises(MetricError, match="named twice"):
        cache.declare(MetricKind("twice", ("a", "a")))


def test_points_are_aggregated_in_several_ways_at_once():
    points = filled([4, 1, 3]).points("pod_cpu_usage", START, START + timedelta(seconds=9))
    assert points.span == timedelta(seconds=2)
    assert [points.value(how) for how in (Aggregation.P50, Aggregation.LAST, Aggregation.COUNT)] == [1, 3, 3]


def test_series_of_an_open_query_are_in_the_order_of_their_labels():
    cache = MetricCache(FakeClock(START))
    for minor, uuid in (("1", "b"), ("0", "c"), ("2", "a")):
        properties = {"gpu_minor": minor, "gpu_device_uuid": uuid}
        cache.append([Sample("node_gpu_core_usage", float(minor), START, properties)])
    points = cache.points("node_gpu_core_usage", START, START)
    assert list(points.values) == [2, 1, 0]
