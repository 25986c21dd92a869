"""Gangs beside kube-scheduler: how fast they are bound, how soon one that does not fit is told so, and how
long it takes to plan a large one.

The first two are taken on the real control plane of `bench.controlplane`, the contenders in turn within each
round; the last one in process, on a cluster in memory.
"""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import objects, servers
from bench.controlplane import NAMESPACE, Bench, Document, Who, all_of, scheduler_config
from bench.report import Result
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.profiles import config
from tests.e2e.controlplane.plane import ControlPlane

NODES, GANGS, MEMBERS = 1_000, 1_000, 3
WAITING = 2_000
"""Pods that do not fit either."""
TOLD = 100
"""Gangs that are told so."""
LARGE, MANY_NODES = 500, 5_000
CHAIN = Path(__file__).parent / "gang-chain.yaml"

_ANNOTATION = "gang.scheduling.koordinator.sh/"
_TOO_MUCH = "1000"
"""CPUs; a node has 32."""
_PATIENCE = 120.0

ALONE = "kube-scheduler alone"
SINGLE = f"{GANGS * MEMBERS:,} pods without gangs"
TOGETHER = f"the same pods in {GANGS:,} gangs of {MEMBERS}"
REFUSED = f"a gang of {MEMBERS} that does not fit, while {WAITING:,} other pods wait"
PLANNED = f"a gang of {LARGE} on {MANY_NODES:,} nodes: the filter call that plans it"


def run(rounds: int = 3) -> Result:
    """Measure."""
    result = Result.begin(
        "gangs",
        rate="pods/s",
        ratio="ratio to the pods without gangs",
        koordpy="extender CPU a pod, ms",
        p50="p50, ms",
        p99="p99, ms",
        others="cores that others used",
    )
    with servers.folder() as folder, ControlPlane(throughput=True) as plane:
        plane.install_crds()
        bench = GangBench(plane, folder, GANGS * MEMBERS)
        asyncio.run(bench.grow_to(NODES))
        bench.measure(Who.ALONE)
        for _ in range(rounds):
            alone = bench.bind(Who.ALONE)
            single = bench.bind(Who.FULL)
            together = bench.bind(Who.FULL, in_gangs=True)
            for label, found, goal in (
                (ALONE, alone, ""),
                (SINGLE, single, ""),
                (TOGETHER, together, "goal: ratio 0.8 at least"),
            ):
                row = result.row(label, goal)
                row.add(rate=found["rate"], ratio=found["rate"] / single["rate"], others=found["others"])
                if "koordpy" in found:
                    row.add(koordpy=found["koordpy"])
            result.row(REFUSED, "goal: p99 2,000 ms at most").add(**bench.refuse())
    for _ in range(rounds):
        result.row(PLANNED, "goal: 300 ms at most").add(**plan(5))
    result.notes.append(
        "A gang is told that it does not fit when the API server has a condition with the reason on each of "
        "its pods; the time counts from the creation of the last of them."
    )
    return result


class GangBench(Bench):
    """A control plane on which the waiting pods may be members of gangs."""

    profiles = CHAIN
    in_gangs = False

    def bind(self, who: Who, *, in_gangs: bool = False) -> dict[str, float]:
        """Let a contender bind all pods; return what it took."""
        self.in_gangs = in_gangs
        return self.measure(who)

    def waiting_pod(self, i: int) -> Document:
        """Return the i-th pod; members of a gang are created one after the other."""
        pod = super().waiting_pod(i)
        return member(pod, f"gang-{i // MEMBERS:04d}", MEMBERS) if self.in_gangs else pod

    def refuse(self) -> dict[str, float]:
        """Create gangs that do not fit; return quantiles of the milliseconds until they are told so."""
        asyncio.run(self._wait())
        bind = f"127.0.0.1:{servers.free_port()}"
        with self.koordpy(bind, Who.FULL):
            self.plane.start_scheduler(scheduler_config(bind, Who.FULL))
            try:
                seconds = sorted(asyncio.run(self._refused()))
            finally:
                self.plane.stop_scheduler()
        return {
            "p50": seconds[len(seconds) // 2] * 1e3,
            "p99": seconds[min(int(len(seconds) * 0.99), len(seconds) - 1)] * 1e3,
        }

    async def _wait(self) -> None:
        """Let only pods wait that do not fit."""
        async with self.client() as client:
            await remove_pods(client)
            pods = (too_large(objects.waiting_pod(i, NAMESPACE)) for i in range(WAITING))
            await all_of(client.create_raw(resource_of(Pod), NAMESPACE, pod) for pod in pods)

    async def _refused(self) -> list[float]:
        """Return for each gang the seconds from its creation until all its pods are told."""
        async with self.client() as client:
            told = Told()
            cluster = Cluster()
            cluster.store(Pod).subscribe(told.seen, lambda _, new: told.seen(new))
            async with Informers(cluster, client) as informers:
                await informers.wait_synced(_PATIENCE)
                await told.until(WAITING)  # the pods that wait have been refused once
                found = []
                for number in range(TOLD):
                    found.append(await self._refused_one(client, told, f"unfit-{number:03d}"))
                return found

    @staticmethod
    async def _refused_one(client: Client, told: "Told", gang: str) -> float:
        before = told.count
        for i in range(MEMBERS):
            pod = too_large(member(objects.waiting_pod(i, NAMESPACE), gang, MEMBERS))
            pod["metadata"]["name"] = f"{gang}-{i}"
            await client.create_raw(resource_of(Pod), NAMESPACE, pod)
        began = time.perf_counter()
        await told.until(before + MEMBERS)
        return time.perf_counter() - began


class Told:
    """Counts pods with the condition that they are unschedulable."""

    def __init__(self) -> None:
        self._uids: set[str] = set()
        self._changed = asyncio.Event()

    @property
    def count(self) -> int:
        """How many there have been."""
        return len(self._uids)

    def seen(self, pod: Pod) -> None:
        """Count a pod once."""
        if any(each.type == "PodScheduled" and each.message for each in pod.status.conditions):
            self._uids.add(pod.metadata.uid)
            self._changed.set()

    async def until(self, count: int) -> None:
        """Wait until there are so many. Raises TimeoutError."""
        async with asyncio.timeout(_PATIENCE):
            while self.count < count:
                self._changed.clear()
                await self._changed.wait()


async def remove_pods(client: Client) -> None:
    """Delete all pods."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0"
    await client.send("DELETE", path, timeout=_PATIENCE)
    while (await client.list_page(Pod, NAMESPACE, limit=1)).items:
        await asyncio.sleep(0.2)


def member(pod: Document, gang: str, members: int) -> Document:
    """Make a pod a member of a gang."""
    annotations = pod["metadata"].setdefault("annotations", {})
    annotations |= {f"{_ANNOTATION}name": gang, f"{_ANNOTATION}min-available": str(members)}
    return pod


def too_large(pod: Document) -> Document:
    """Make a pod request more than any node has."""
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = _TOO_MUCH
    return pod


# --- planning in process -----------------------------------------------------------------------------


def plan(gangs: int) -> dict[str, float]:
    """Plan large gangs one after the other, each on an empty cluster; return milliseconds."""
    seconds = sorted(asyncio.run(_plan()) for _ in range(gangs))
    return {"p50": seconds[gangs // 2] * 1e3, "p99": seconds[-1] * 1e3}


async def _plan() -> float:
    extender = in_memory(MANY_NODES)
    for pod in large_gang(LARGE):
        extender.handle.cluster.store(Pod).apply(decode(Pod, pod))
    names = [objects.node_name(i) for i in range(MANY_NODES)]
    random.Random(1).shuffle(names)
    warm = {**objects.waiting_pod(0), "metadata": {"name": "warm", "namespace": NAMESPACE, "uid": "warm"}}
    extender.filter(_question(warm, names[:LARGE]))  # the columns of the node table are there
    first = next(large_gang(1))
    body = _question(first, names[:LARGE])
    began = time.perf_counter()
    answer, _ = extender.filter(body)
    seconds = time.perf_counter() - began
    assert len(json.loads(answer)["NodeNames"]) == 1, answer[:300]
    assert len(extender.jobs.held) == LARGE
    extender.jobs.held.close("measured")
    return seconds


def _question(pod: Document, names: list[str]) -> bytes:
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()


def large_gang(members: int) -> Iterator[Document]:
    """Yield the pods of a gang of `LARGE`."""
    for i in range(members):
        pod: dict[str, Any] = member(objects.waiting_pod(i, NAMESPACE), "large", LARGE)
        pod["metadata"] |= {"name": f"large-{i:03d}", "uid": f"large-{i:03d}"}
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
        yield pod


def in_memory(nodes: int) -> Extender:
    """Return an extender over idle nodes."""
    cluster = Cluster()
    extender = create(config.load(CHAIN), cluster, None)
    now = format_time(datetime.now(UTC))
    for i in range(nodes):
        cluster.store(Node).apply(decode(Node, objects.node(i)))
        status = {**objects.node_metric_status(i), "updateTime": now}
        cluster.store(NodeMetric).apply(decode(NodeMetric, {**objects.node_metric(i), "status": status}))
    for store in cluster.stores:
        store.synced = True
    return extender
