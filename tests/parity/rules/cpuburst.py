"""Rounds of CPU burst: `koordpy_plugins.qos.cpuburst`, on given quotas and metrics."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.interface import (
    NODE_CPU_INFO,
    Aggregation,
    CgroupError,
    CgroupLayout,
    Handle,
    MetricError,
    NodeCPUInfo,
    PodMeta,
    Processor,
    Update,
    gates,
)
from koordpy.api.core import Pod
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.qos.cpuburst.plugin import CPUBurst
from koordpy_plugins.qos.cpuburst.token_bucket import TokenBucket

LAYOUT = CgroupLayout(systemd=True)


class GivenMetrics:
    """Answers the queries of a round."""

    def __init__(self, processors: int) -> None:
        self.round: Mapping[str, Any] = {}
        rows = tuple(Processor(cpu, cpu, 0, 0) for cpu in range(max(processors, 0)))
        self._info = None if processors < 0 else NodeCPUInfo(rows)

    def fact(self, fact):
        assert fact is NODE_CPU_INFO
        return self._info

    def query(self, kind, aggregation, start, end, properties=None):
        found = self._found(kind, aggregation, properties or {})
        if found is None:
            raise MetricError(f"no sample of {kind}")
        return found

    def _found(self, kind: str, how: Aggregation, properties: Mapping[str, str]) -> float | None:
        given = self.round
        if kind == "node_cpu_usage":
            return given.get("nodeCPUAvg")
        name, key = {
            ("pod_cpu_usage", Aggregation.AVG): ("podCPUAvg", "pod_uid"),
            ("container_cpu_usage", Aggregation.LAST): ("containerCPULast", "container_id"),
            ("container_cpu_throttled", Aggregation.LAST): ("throttledLast", "container_id"),
        }[kind, how]
        return (given.get(name) or {}).get(properties[key])


class Quotas:
    """The quotas of cgroups in memory, and everything that is written."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.names: dict[str, tuple[str, str]] = {}
        self.quotas: dict[str, int] = {}
        self.written: list[list[Any]] = []
        for entry in case["pods"] or []:
            pod = decode(Pod, entry["pod"])
            directory = LAYOUT.pod(pod)
            self.names[directory] = pod.metadata.name, ""
            ids = {status.name: status.container_id for status in pod.status.container_statuses}
            for name, container_id in ids.items():
                if container_id:
                    self.names[LAYOUT.container(directory, container_id)] = pod.metadata.name, name
            for name, quota in (entry.get("quotas") or {}).items():
                if not name:
                    self.quotas[directory] = quota
                elif ids.get(name):
                    self.quotas[LAYOUT.container(directory, ids[name])] = quota

    def cfs_quota(self, directory):
        if directory not in self.quotas:
            raise CgroupError(f"{directory} does not exist")
        return self.quotas[directory]

    def update(self, update: Update, *, cached: bool = True) -> bool:
        kind = "burst" if update.resource == "cpu.cfs_burst_us" else "quota"
        self.written.append([*self.names[update.directory], kind, update.value])
        if kind == "quota":
            self.quotas[update.directory] = int(update.value)
        return True


def run(case: dict[str, Any], tag: str | None) -> Any:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    start = 1_000_000.0
    clock.advance(start)
    metrics, quotas = GivenMetrics(case["processors"]), Quotas(case)
    pods = [
        PodMeta(pod, LAYOUT.pod(pod)) for entry in case["pods"] or [] for pod in [decode(Pod, entry["pod"])]
    ]
    slo: list[NodeSLOSpec | None] = [None]
    handle = Handle(
        node_name="n",
        states=SimpleNamespace(node_slo=lambda: slo[0], pods=lambda: pods),
        metrics=SimpleNamespace(query=metrics.query, fact=metrics.fact),
        layout=LAYOUT,
        cgroups=SimpleNamespace(cfs_quota=quotas.cfs_quota),
        executor=SimpleNamespace(update=quotas.update),
        cluster=Cluster(clock),
        gates=FeatureGates(gates.GATES),
        flags=flags_of([CPUBurst]),
        clock=clock,
        rng=random.Random(1),
    )
    plugin = CPUBurst(NoArgs(), handle)
    plugin.setup()
    for container_id, given in (case["buckets"] or {}).items():
        bucket = TokenBucket(given["periodSeconds"], 100, start, handle.rng)
        bucket.capacity, bucket.tokens = given["capacity"], given["token"]
        bucket.updated_at = start - given["secondsSinceUpdate"]
        plugin.buckets[container_id] = bucket
    rounds = []
    at = 0.0
    for turn in case["rounds"]:
        clock.advance(turn["at"] - at)
        at = turn["at"]
        metrics.round = turn
        if "nodeSLOSpec" in turn:
            slo[0] = None if turn["nodeSLOSpec"] is None else decode(NodeSLOSpec, turn["nodeSLOSpec"])
        quotas.written = []
        plugin.round()
        answer: dict[str, Any] = {"writes": quotas.written}
        strategy = slo[0].cpu_burst_strategy if slo[0] is not None else None
        if strategy is not None:
            answer["nodeState"] = plugin.node_state(strategy, pods).value
        rounds.append(answer)
    return {"rounds": rounds}
