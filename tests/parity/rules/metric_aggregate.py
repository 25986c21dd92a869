"""Aggregation of samples, and the NodeMetric that is reported from them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from koordpy.agent.interface import KINDS, Aggregation, MetricError, PodMeta, unix_milliseconds
from koordpy.agent.interface.facts import (
    COLD_MEMORY_MEASURED,
    GPU_DEVICES,
    NODE_NUMA_INFO,
    GPUDevice,
    NodeNUMAInfo,
    NUMANodeMemory,
)
from koordpy.agent.metrics.aggregation import Window
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.prediction.predictors import PredictionError
from koordpy.agent.reporting.node_metric_status import StatusBuilder
from koordpy.agent.toolkit import collect_policy
from koordpy.api import resource_list
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import decode
from koordpy.api.slo.host_application import HostApplicationSpec
from koordpy.lib.clock import FakeClock

AGGREGATIONS = {
    "avg": Aggregation.AVG,
    "p50": Aggregation.P50,
    "P90": Aggregation.P90,
    "P95": Aggregation.P95,
    "p99": Aggregation.P99,
    "last": Aggregation.LAST,
    "count": Aggregation.COUNT,
}
"""Names in Koordinator's metric cache; other ones mean the average."""

MILLISECOND = timedelta(milliseconds=1)
EVER = timedelta(days=36500)


class Answers:
    """A predictor with given answers."""

    name = "given"

    def __init__(self, answers: dict[str, Any] | None) -> None:
        self.answers = answers or {}
        self.pods: list[str] = []

    def add(self, pod: Pod) -> None:
        self.pods.append(pod.metadata.key)
        raise PredictionError("errors are ignored")

    def reclaimable(self) -> resource_list.Quantities:
        return self.answer("reclaimable")

    def peak(self) -> resource_list.Quantities:
        return self.answer("peak")

    def answer(self, name: str) -> resource_list.Quantities:
        if self.answers.get(name) is None:
            raise PredictionError("not known")
        return resource_list.from_wire(self.answers[name])


def run(case: dict[str, Any], tag: str | None) -> Any:
    return aggregate(case) if case["kind"] == "aggregate" else report(case)


def aggregate(case: dict[str, Any]) -> Any:
    series = [series.get("points") or [] for series in case["series"]]
    window = Window([([time for time, _ in points], [value for _, value in points]) for points in series])
    values: dict[str, float | None] = {}
    for name in case["types"]:
        try:
            values[name] = window.value(AGGREGATIONS.get(name, Aggregation.AVG))
        except MetricError:
            values[name] = None
    return {"values": values, "count": window.count, "spanMillis": window.span // MILLISECOND}


def report(case: dict[str, Any]) -> Any:
    now = datetime.fromtimestamp(0, UTC) + case["now"] * MILLISECOND
    assert unix_milliseconds(now) == case["now"]
    cache = MetricCache(FakeClock(now), retention=EVER)
    for kind in KINDS.values():  # the vectors say nothing of points that were removed
        cache.declare(replace(kind, retention=EVER))
    for stored in case["series"]:
        series = cache.series(stored["name"], stored.get("labels") or {})
        for time, value in stored["points"] or []:
            series.append(value, time)
    if case.get("coldMemoryStarted"):
        cache.set_fact(COLD_MEMORY_MEASURED, True)
    if case.get("gpus") is not None:
        gpus = tuple(GPUDevice(each["uuid"], each["minor"], each["memoryTotal"]) for each in case["gpus"])
        cache.set_fact(GPU_DEVICES, gpus)
    if case.get("numaNodes") is not None:
        nodes = tuple(NUMANodeMemory(node, 0, 0) for node in case["numaNodes"])
        cache.set_fact(NODE_NUMA_INFO, NodeNUMAInfo(nodes))
    policy = collect_policy.completed(decode(NodeMetric.Spec, case.get("nodeMetricSpec") or {}))
    applications = case.get("hostApplications") if case.get("hasNodeSLO") else None
    predictor = Answers(case.get("predictor"))
    status = StatusBuilder(cache, policy, now).build(
        [PodMeta(decode(Pod, pod), "") for pod in case.get("pods") or []],
        [msgspec.convert(each, HostApplicationSpec) for each in applications or []],
        predictor,
    )
    del status["updateTime"]
    return {
        "status": status,
        "reportIntervalSeconds": policy.interval_seconds,
        "aggregateDurationSeconds": policy.aggregate_seconds,
        "predictorPods": sorted(predictor.pods) or None,
    }
