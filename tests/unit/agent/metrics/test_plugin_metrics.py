from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.agent.interface import MetricError, MetricKind
from koordpy.agent.interface.metrics import Fact
from koordpy.agent.metrics.blocks import BLOCK_BYTES
from koordpy.agent.metrics.cache import LONGEST_IDENTITY, MetricCache
from koordpy.agent.metrics.plugin_metrics import MOST_FACTS, MOST_KINDS, PluginMetrics
from koordpy.agent.metrics.share import SERIES_BYTES
from koordpy.lib.clock import FakeClock

START = datetime(2026, 1, 1, tzinfo=UTC)
ZERO = START.timestamp()
KIND = MetricKind("usage", ("uid",), "cores", timedelta(minutes=5))


def made(max_bytes=1 << 20):
    clock = FakeClock(START)
    cache = MetricCache(clock, max_bytes=max_bytes)
    cache.declare(KIND)
    return cache, clock


def test_what_a_plugin_adds_is_counted_for_it():
    cache, clock = made()
    metrics = PluginMetrics(cache, "A")
    for number in range(200):
        metrics.series("usage", {"uid": "u"}).add(1.0, ZERO + number)
    assert cache.shares["A"].bytes == 3 * BLOCK_BYTES + SERIES_BYTES == cache.bytes_used
    assert PluginMetrics(cache, "B").series("usage", {"uid": "u"}).point_count == 200
    assert (cache.shares["A"].bytes, cache.shares["B"].bytes) == (0, 3 * BLOCK_BYTES + SERIES_BYTES)
    clock.advance(3600)
    cache.collect()
    assert cache.shares["B"].bytes == 0


def test_a_series_without_points_is_not_stored():
    cache, _ = made()
    for number in range(1000):
        PluginMetrics(cache, "A").series("usage", {"uid": str(number)})
    assert cache.series_count == 0


def test_the_plugin_with_most_loses_points_and_others_do_not():
    cache, _ = made(256 * BLOCK_BYTES)
    for number in range(20):
        PluginMetrics(cache, "Small").series("usage", {"uid": f"s{number}"}).add(1.0, ZERO)
    for number in range(5000):
        PluginMetrics(cache, "Large").series("usage", {"uid": f"l{number}"}).add(1.0, ZERO + number / 1000)
    assert cache.bytes_used <= 256 * BLOCK_BYTES
    assert (cache.shares["Small"].series, cache.shares["Small"].evicted) == (20, 0)
    assert cache.shares["Large"].evicted > 4000


def test_kinds_facts_and_long_properties_are_limited():
    cache, _ = made()
    metrics = PluginMetrics(cache, "A")
    for number in range(MOST_KINDS):
        metrics.declare(MetricKind(f"kind_{number}"))
    with pytest.raises(MetricError, match=f"plugin A may add {MOST_KINDS} metric kinds at most"):
        metrics.declare(MetricKind("one_more"))
    metrics.declare(MetricKind("kind_0"))
    for number in range(MOST_FACTS):
        metrics.set_fact(Fact(f"fact_{number}"), number)
    with pytest.raises(MetricError, match="facts at most"):
        metrics.set_fact(Fact("one_more"), 1)
    with pytest.raises(MetricError, match=f"more than {LONGEST_IDENTITY} characters"):
        metrics.series("usage", {"uid": "u" * (LONGEST_IDENTITY + 1)})
    PluginMetrics(cache, "B").declare(MetricKind("one_more"))


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("ABC"), st.integers(0, 12), st.integers(1, 400), st.integers(-90, 90)),
        max_size=60,
    )
)
def test_the_counts_of_plugins_are_those_of_their_series(steps):
    cache, clock = made(40 * BLOCK_BYTES)
    at = ZERO
    for plugin, uid, count, pause in steps:
        series = PluginMetrics(cache, plugin).series("usage", {"uid": str(uid)})
        for number in range(count):
            series.add(float(number), at + number)
        at = max(at + pause, ZERO)
        clock.advance(max(at - clock.now().timestamp(), 0))
        if not pause % 7:
            cache.collect()
        if pause == 5:
            series.close()
        found = [each for by_identity in cache._series.values() for each in by_identity.values() if each.id]
        for name, share in cache.shares.items():
            own = [each for each in found if each.share.name == name]
            assert (share.series, share.blocks) == (len(own), sum(each.block_count for each in own))
        assert sum(share.bytes for share in cache.shares.values()) == cache.bytes_used
