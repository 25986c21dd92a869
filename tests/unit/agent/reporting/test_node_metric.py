"""The reporter of NodeMetrics, without an API server: the interval, and what is exported."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from koordpy.agent.interface import FlagSet, Sample
from koordpy.agent.interface.gates import GATES, NODE_METRIC_PROM_METRICS
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.prediction.predictors import PredictionError
from koordpy.agent.reporting.node_metric import NodeMetricReporter
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates

START = datetime(2026, 1, 1, tzinfo=UTC)


class EmptyNode:
    """The states of a node without pods."""

    node_name = "n"

    def pods(self):
        return []

    def node(self):
        return None

    def node_slo(self):
        return None


class Unknowing:
    """A predictor that knows nothing."""

    name = "unknowing"

    def add(self, pod):
        raise PredictionError("unknown")

    def reclaimable(self):
        raise PredictionError("unknown")

    peak = reclaimable


class Stopped(Exception):
    """Ends a loop."""


class Stage:
    """A reporter without a client; `naps` are the seconds that it slept."""

    def __init__(self, *, exported=False, enabled=True):
        self.clock = FakeClock(START)
        self.metrics = MetricCache(self.clock)
        self.cluster = Cluster(self.clock)
        self.naps: list[float] = []
        flags = FlagSet()
        NodeMetricReporter.init_flags(flags)
        flags.set("enable-node-metric-report", enabled)
        states: Any = EmptyNode()
        self.reporter = NodeMetricReporter(
            states,
            self.metrics,
            lambda node: Unknowing(),
            cluster=self.cluster,
            client=None,
            flags=flags,
            gates=FeatureGates(GATES, {NODE_METRIC_PROM_METRICS: exported}),
            clock=self.clock,
            rng=random.Random(1),
            sleep=self.sleep,
        )

    async def sleep(self, seconds):
        self.naps.append(seconds)
        if len(self.naps) == 3:
            raise Stopped

    def measure(self, cpu, memory):
        now = self.clock.now()
        self.metrics.append(
            [Sample("node_cpu_usage", cpu, now, {}), Sample("node_memory_usage", memory, now, {})]
        )

    def set_interval(self, seconds):
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": seconds}}
        self.cluster.store(NodeMetric).put(decode(NodeMetric, {"metadata": {"name": "n"}, "spec": spec}))


async def test_the_interval_is_read_again_after_every_report(monkeypatch):
    stage = Stage()
    report = stage.reporter.report

    async def report_and_change():
        stage.set_interval(90)
        return await report()

    monkeypatch.setattr(stage.reporter, "report", report_and_change)
    with pytest.raises(Stopped):
        await stage.reporter.run()
    assert stage.naps == [60, 90, 90]


async def test_nothing_is_reported_before_there_is_an_object(caplog):
    stage = Stage()
    assert await stage.reporter.report() is False
    assert "NodeMetric n does not exist" in caplog.text


def test_a_disabled_reporter_is_always_ready():
    assert Stage(enabled=False).reporter.not_ready() is None
    assert Stage().reporter.not_ready() == "NodeMetrics are not listed yet"


def exported(name):
    return REGISTRY.get_sample_value(f"koordlet_{name}", {"node": "n", "resource": "cpu", "unit": "core"})


def test_the_values_are_exported_behind_the_gate_and_gone_when_unknown():
    stage = Stage(exported=True)
    stage.measure(1.5, 2**30)
    status = stage.reporter.status()
    assert status["nodeMetric"]["nodeUsage"] == {"resources": {"cpu": "1500m", "memory": "1Gi"}}
    assert exported("node_metric_node_usage") == 1.5
    stage.clock.advance(3600)
    stage.reporter.status()
    assert exported("node_metric_node_usage") is None


def test_without_the_gate_nothing_is_exported():
    Stage(exported=True).reporter.status()
    stage = Stage()
    stage.measure(1.5, 2**30)
    stage.reporter.status()
    assert exported("node_metric_node_usage") is None


def test_what_can_be_reclaimed_is_exported_as_unknown():
    Stage().reporter.status()
    labels = {"node": "n", "priority": "koord-prod"}
    assert REGISTRY.get_sample_value("koordlet_node_resource_priority_reclaimable_status", labels) == 1


def test_a_longer_window_than_usual_is_kept_from_then_on():
    stage = Stage()
    spec = {"metricCollectPolicy": {"nodeAggregatePolicy": {"durations": ["2h"]}}}
    stage.cluster.store(NodeMetric).put(decode(NodeMetric, {"metadata": {"name": "n"}, "spec": spec}))
    stage.reporter.status()
    for _ in range(7200):
        stage.clock.advance(1)
        stage.measure(1, 2**20)
    [usage] = stage.reporter.status()["nodeMetric"]["aggregatedNodeUsages"]
    assert usage["usage"]["p90"] == {"resources": {"cpu": "1", "memory": "1Mi"}}
    assert stage.metrics.retention_milliseconds("node_cpu_usage") >= timedelta(hours=2).total_seconds() * 1000
