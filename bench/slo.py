"""Rounds of the SLO controllers over a large cluster, and one NodeMetric.

The controllers of `koordpy worker` with their queues and plugins, in this process, on objects as they come
from an API server; every node has pods, a NodeMetric with all of them, and a NodeResourceTopology with two
zones. Writes are accepted at once: what is measured is the controllers, not an API server.
"""

import asyncio
import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from bench.report import Result, Row
from koordpy.api import json_merge
from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology
from koordpy.api.meta import ObjectMeta, format_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.controllers import host
from koordpy.controllers.interface import Handle
from koordpy.controllers.queue import WorkQueue
from koordpy.controllers.reconcile import reconcile_once
from koordpy.main import tune_memory

NODES, PODS = 5000, 20
SINGLE = 500
"""NodeMetrics that are measured one by one."""

NAMES = ("nodemetric", "nodeslo", "noderesource")
NODE_RESOURCE = ("noderesource",)
NODE_CONFIG = {
    "name": "b",
    "nodeSelector": {"matchLabels": {"pool": "b"}},
    "memoryCalculatePolicy": "request",
}

SPEC = {
    "metricCollectPolicy": {
        "aggregateDurationSeconds": 300,
        "reportIntervalSeconds": 60,
        "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
        "nodeMemoryCollectPolicy": "usageWithoutPageCache",
    }
}
"""How nodes measure by default; agents never change it."""


class Writes:
    """Accepts all writes, and keeps them."""

    def __init__(self) -> None:
        self.created: list[tuple[Any, dict[str, Any]]] = []
        self.patches: list[tuple[Any, str, dict[str, Any]]] = []

    async def patch(self, type_: Any, namespace: str, name: str, patch: Any, **options: Any) -> None:
        """Accept a merge patch."""
        self.patches.append((type_, name, patch))

    async def create_raw(self, resource: Any, namespace: str, document: dict[str, Any]) -> None:
        """Accept an object."""
        self.created.append((resource, document))


class World:
    """A cluster of `nodes` nodes with `pods` pods each, and the controllers on it."""

    def __init__(self, nodes: int, pods: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster, self.writes = Cluster(), Writes()
        catalogue = host.installed()
        handle = Handle(self.cluster, host.feature_gates(catalogue), connected=self.writes)  # type: ignore[arg-type]
        self.controllers: dict[str, Any] = {
            item.name: item for item in host.build(catalogue, NAMES, {}, handle)
        }
        for controller in self.controllers.values():
            controller.setup()
        self.names = [f"node-{index}" for index in range(nodes)]
        self.pods = pods
        self.configure(60)
        for name in self.names:
            self._fill(name)
        self.drain()

    def configure(self, percent: int) -> None:
        """Write the configuration of colocation."""
        meta = ObjectMeta(namespace="koordinator-system", name="slo-controller-config")
        config = {"enable": True, "cpuReclaimThresholdPercent": percent, "nodeConfigs": [NODE_CONFIG]}
        data = {"colocation-config": json.dumps(config)}
        self.cluster.store(ConfigMap).put(ConfigMap(metadata=meta, data=data))

    def report(self, name: str) -> bytes:
        """Return a NodeMetric as its node's agent writes it."""
        draw = self.rng.randrange
        metrics = [
            {
                "namespace": "default",
                "name": f"{name}-{index}",
                "priority": "koord-prod" if index % 3 else "koord-batch",
                "podUsage": _usage(f"{draw(1, 3000)}m", draw(10**6, 8 * 10**9)),
            }
            for index in range(self.pods)
        ]
        node = {
            "nodeUsage": _usage(f"{draw(1000, 60_000)}m", draw(10**9, 10**11)),
            "systemUsage": _usage(f"{draw(100, 6000)}m", draw(10**9, 10**10)),
        }
        status = {"updateTime": format_time(datetime.now(UTC)), "nodeMetric": node, "podsMetric": metrics}
        return msgspec.json.encode({"metadata": {"name": name}, "spec": SPEC, "status": status})

    def report_all(self) -> None:
        """Put a new NodeMetric of every node into the view of the cluster."""
        for name in self.names:
            self.cluster.store(NodeMetric).put(decode(NodeMetric, self.report(name)))

    def drain(self) -> None:
        """Empty the queues."""
        for controller in self.controllers.values():
            _drain(controller.queue)

    def enqueue(self, names: Sequence[str] = NAMES) -> None:
        """Enqueue every node."""
        for name in names:
            self.controllers[name].enqueue_all()

    async def work(self, names: Sequence[str] = NAMES) -> None:
        """Reconcile all that is queued."""
        for name in names:
            controller = self.controllers[name]
            queue: WorkQueue = controller.queue
            while (key := queue.pop()) is not None:
                await reconcile_once(queue, key, controller.reconcile)
                queue.done(key)
                if queue.failures(key):
                    raise RuntimeError(f"{name}: {key} was not reconciled")

    def deliver(self) -> None:
        """Let the watch deliver what was written."""
        for resource, document in self.writes.created:
            self.cluster.store(resource.type).put(decode(resource.type, document))
        stored: dict[tuple[Any, str], Any] = {}
        for type_, name, patch in self.writes.patches:
            known = stored.get((type_, name)) or msgspec.to_builtins(self.cluster.store(type_).get("", name))
            stored[type_, name] = json_merge.apply(known, patch)
        for (type_, _), document in stored.items():
            self.cluster.store(type_).put(decode(type_, document))
        self.writes.created.clear()
        self.writes.patches.clear()
        self.drain()

    def _fill(self, name: str) -> None:
        amounts = {"cpu": "64", "memory": "263412000Ki", "pods": "110"}
        labels = {"pool": self.rng.choice("ab"), "kubernetes.io/hostname": name}
        status = {"capacity": amounts, "allocatable": {**amounts, "cpu": "63500m"}}
        meta = {"name": name, "labels": labels, "annotations": {"a": "b"}}
        self.cluster.store(Node).put(decode(Node, {"metadata": meta, "status": status}))
        self.cluster.store(NodeResourceTopology).put(decode(NodeResourceTopology, _topology(name)))
        for index in range(self.pods):
            self.cluster.store(Pod).put(decode(Pod, self._pod(name, index)))
        self.cluster.store(NodeMetric).put(decode(NodeMetric, self.report(name)))

    def _pod(self, node: str, index: int) -> dict[str, Any]:
        draw = self.rng.randrange
        requests = {"cpu": f"{draw(100, 3000)}m", "memory": f"{draw(1, 64) * 128}Mi"}
        spec = {
            "nodeName": node,
            "priority": 9100 if index % 3 else 5100,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        }
        meta = {"name": f"{node}-{index}", "namespace": "default"}
        return {"metadata": meta, "spec": spec, "status": {"phase": "Running"}}


def _usage(cpu: str, memory: int) -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": str(memory)}}


def _topology(name: str) -> dict[str, Any]:
    cpu, memory = "32", "131706000Ki"
    resources = [
        {"name": "cpu", "capacity": cpu, "allocatable": cpu, "available": cpu},
        {"name": "memory", "capacity": memory, "allocatable": memory, "available": memory},
    ]
    zones = [{"name": f"node-{index}", "type": "Node", "resources": resources} for index in (0, 1)]
    return {"metadata": {"name": name}, "topologyPolicies": ["None"], "zones": zones}


def _drain(queue: WorkQueue) -> None:
    while (key := queue.pop()) is not None:
        queue.done(key)


def _timed(row: Row, world: World, prepare: Callable[[], object], names: Sequence[str] = NAMES) -> None:
    """Add the seconds of a round over what `prepare` changed."""

    async def round_() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        world.enqueue(names)
        await world.work(names)
        return time.perf_counter() - wall, time.process_time() - cpu

    prepare()
    world.drain()
    tune_memory()  # as `koordpy worker` does once everything is listed
    wall, cpu = asyncio.run(round_())
    row.add(round=wall, cpu=cpu, writes=len(world.writes.created) + len(world.writes.patches))
    world.deliver()


async def _single(world: World, names: Iterable[str]) -> list[float]:
    """Return milliseconds from the bytes of a NodeMetric to the end of what it leads to."""
    store, found = world.cluster.store(NodeMetric), []
    for name in names:
        body = world.report(name)
        began = time.perf_counter()
        store.put(decode(NodeMetric, body))
        await world.work(NODE_RESOURCE)
        found.append((time.perf_counter() - began) * 1000)
    return found


def run(rounds: int = 3, nodes: int = NODES, pods: int = PODS) -> Result:
    """Measure."""
    result = Result.begin(
        "slo",
        round="a round, s",
        cpu="CPU of a round, s",
        writes="writes",
        p50="p50, ms",
        p99="p99, ms",
    )
    goal = "goal: 1 s at most"
    for number in range(rounds):
        world = World(nodes, pods, number)
        about = f"{nodes:,} nodes, {nodes * pods:,} pods"
        first = result.row(f"{about}: noderesource, the first round: everything is written", goal)
        _timed(first, world, lambda: None, NODE_RESOURCE)
        made = result.row(f"{about}: nodeslo, the first round: everything is created", goal)
        _timed(made, world, lambda: None, ("nodeslo",))
        _timed(result.row(f"{about}: all controllers, nothing changed", goal), world, lambda: None)
        changed = result.row(f"{about}: all controllers, another threshold", goal)
        _timed(changed, world, partial(world.configure, 75))
        _timed(result.row(f"{about}: all controllers, new NodeMetrics", goal), world, world.report_all)
        times = asyncio.run(_single(world, world.rng.sample(world.names, min(SINGLE, nodes))))
        cuts = statistics.quantiles(times, n=100, method="inclusive")
        result.row("one NodeMetric, decoded, stored, its node reconciled", "goal: 1 ms at most").add(
            p50=cuts[49], p99=cuts[98]
        )
        gc.unfreeze()
    result.notes.append(
        f"{pods} pods a node, a third of them batch; two NUMA zones a node. Without the time that an API "
        "server takes for the writes."
    )
    return result
