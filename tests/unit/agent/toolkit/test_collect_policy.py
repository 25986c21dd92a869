import pytest

from koordpy.agent.toolkit.collect_policy import DEFAULT, CollectPolicy, completed
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import decode
from koordpy.lib.duration import MINUTE, SECOND


def policy(**fields) -> CollectPolicy:
    return completed(decode(NodeMetric.Spec, {"metricCollectPolicy": fields}))


def test_what_is_not_given_is_the_default():
    assert completed(None) == completed(NodeMetric.Spec()) == policy() == DEFAULT
    assert DEFAULT.durations == (5 * MINUTE, 10 * MINUTE, 30 * MINUTE)


@pytest.mark.parametrize(("given", "effective"), [(59, 60), (60, 60), (61, 61), (0, 60), (-5, 60)])
def test_the_window_is_at_least_a_minute(given, effective):
    assert policy(aggregateDurationSeconds=given).aggregate_seconds == effective


@pytest.mark.parametrize(("given", "effective"), [(29, 30), (31, 31), (-1, 30)])
def test_the_interval_is_at_least_half_a_minute(given, effective):
    assert policy(reportIntervalSeconds=given).interval_seconds == effective


def test_durations_replace_the_default_ones_unless_there_are_none():
    assert policy(nodeAggregatePolicy={"durations": ["1m30s"]}).durations == (90 * SECOND,)
    assert policy(nodeAggregatePolicy={"durations": []}).durations == DEFAULT.durations


def test_malformed_durations_are_reported_and_leave_the_default(caplog):
    assert policy(nodeAggregatePolicy={"durations": ["5m", "soon"]}).durations == DEFAULT.durations
    assert "'soon' is not a duration" in caplog.text
