"""Rounds of CPU and memory eviction: `koordpy_plugins.qos.{cpuevict,memoryevict}`, on given metrics."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.interface import (
    COLLECT_INTERVAL,
    Aggregation,
    CgroupLayout,
    Handle,
    MetricError,
    PodMeta,
    gates,
)
from koordpy.agent.toolkit.eviction.tasks import EVICTED, EvictionTask, work_off
from koordpy.api.core import Node, Pod
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.qos.cpuevict.plugin import CPUEvict
from koordpy_plugins.qos.memoryevict.plugin import MemoryEvict

from ..vectors import equal

_ALLOCATIONS = {"usage": "usage", "request": "request", "real-limit": "realLimit"}


class GivenMetrics:
    """Answers the queries of a case."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.case = case

    def query(self, kind, aggregation, start, end, properties=None):
        found = self._found(kind, aggregation, properties or {})
        if found is None:
            raise MetricError(f"no sample of {kind}")
        return found

    def _found(self, kind: str, how: Aggregation, properties: Mapping[str, str]) -> float | None:
        case = self.case
        if kind == "node_be":
            found = (case.get("beCPU") or {}).get(_ALLOCATIONS[properties["be_allocation"]])
            if found is None or (how is Aggregation.AVG and not found["count"]):
                return None
            return found.get(how.value)
        if kind == "node_cpu_usage":
            return case.get("nodeCPUAvg")
        if kind == "node_memory_usage":
            return case.get("nodeMemoryLast")
        name = {"pod_cpu_usage": "podCPULast", "pod_memory_usage": "podMemoryLast"}[kind]
        return (case.get(name) or {}).get(properties["pod_uid"])


class RecordingExecutor:
    """Evicts all pods but some, and knows pods that were evicted before."""

    def __init__(self, evicted: list[str], failing: list[str]) -> None:
        self.evicted, self.failing = set(evicted), set(failing)
        self.calls: list[list[Any]] = []

    async def evict(self, pod: Pod, reason: str, message: str) -> bool:
        success = pod.metadata.uid not in self.failing
        self.calls.append([pod.metadata.key, success, reason, message])
        return success

    def is_evicted(self, pod: Pod) -> bool:
        return pod.metadata.uid in self.evicted

    def customize(self, name, initializer):
        raise AssertionError("no plugin of this rule has its own executor")


def run(case: dict[str, Any], tag: str | None) -> Any:
    return asyncio.run(_run(case))


async def _run(case: dict[str, Any]) -> dict[str, Any]:
    type_ = CPUEvict if case["kind"] == "cpu" else MemoryEvict
    prefix = "cpu" if type_ is CPUEvict else "memory"
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    clock.advance(1_000_000)
    executor = RecordingExecutor(case["alreadyEvicted"] or [], case["evictFails"] or [])
    files = CgroupFiles(Path("/cgroup"), Version.V1)
    spec = case.get("nodeSLOSpec")
    slo = None if spec is None else decode(NodeSLOSpec, spec)
    node = decode(Node, case["node"]) if case["node"] else None
    pods = [PodMeta(decode(Pod, pod), "") for pod in case["pods"] or []]
    flags = {
        COLLECT_INTERVAL: case["collectIntervalSeconds"],
        f"{prefix}-evict-cool-time-seconds": case["coolTimeSeconds"],
    }
    handle = Handle(
        node_name="n",
        states=SimpleNamespace(node=lambda: node, node_slo=lambda: slo, pods=lambda: pods),
        metrics=SimpleNamespace(query=GivenMetrics(case["metrics"]).query),
        layout=CgroupLayout(systemd=True),
        cgroups=files,
        executor=Executor(files, clock),
        cluster=Cluster(clock),
        gates=FeatureGates(gates.GATES, dict.fromkeys(case["gates"], True)),
        flags=flags_of([type_], flags),
        clock=clock,
        eviction=executor,
    )
    plugin = type_(NoArgs(), handle)
    plugin.setup()
    rounds = plugin.rounds
    found = rounds.tasks()
    tasks = [task for task in found.values() if isinstance(task, EvictionTask)]
    rounds.last_eviction = clock.monotonic() - case["secondsSinceLastEvict"]
    outcome = await rounds.round()
    answer: dict[str, Any] = {
        "tasks": {feature: _described(task) for feature, task in found.items()},
        "evictions": executor.calls,
        "newlyEvicted": outcome is not None and outcome.newly_evicted,
    }
    if tasks:
        again = RecordingExecutor(case["alreadyEvicted"] or [], case["evictFails"] or [])
        released = (await work_off(tasks, again)).released
        answer["released"] = {target.value: _amounts(amounts) for target, amounts in released.items()}
    assert all(reason == EVICTED for _, _, reason, _ in executor.calls)
    return answer


def _described(task: EvictionTask | ValueError | None) -> Any:
    if not isinstance(task, EvictionTask):
        return None if task is None else "invalid config"
    return {
        "reason": task.reason,
        "target": task.target.value,
        "release": _amounts(task.release),
        "order": [candidate.pod.metadata.key for candidate in task.candidates],
    }


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{Decimal(amount) / 1000:f}" for name, amount in amounts.items()}


def same(ours: Any, expected: Any, case_in: Any) -> bool:
    """Amounts compare as numbers."""
    return equal(_with_numbers(ours), _with_numbers(expected))


def _with_numbers(answer: dict[str, Any]) -> dict[str, Any]:
    def numbers(amounts: Mapping[str, str]) -> dict[str, float]:
        return {name: int(Decimal(amount) * 1000) for name, amount in amounts.items()}

    tasks = {
        feature: {**task, "release": numbers(task["release"])} if isinstance(task, dict) else task
        for feature, task in (answer.get("tasks") or {}).items()
    }
    released = {target: numbers(amounts) for target, amounts in (answer.get("released") or {}).items()}
    return {**answer, "tasks": tasks, "released": released}
