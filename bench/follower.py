"""A process that follows nodes and pods of an API server and reports what that took.

`python -m bench.follower URL EVENTS` lists, waits for EVENTS updates of pods, and prints one JSON object.
"""

import asyncio
import gc
import json
import os
import resource
import sys
import time

import uvloop

from bench import machine
from koordpy.api.core import Node, Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informers import Informers
from koordpy.lib.garbage import begin_listing
from koordpy.main import tune_memory


class Stalls:
    """The longest time for which the event loop ran nothing."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        """Look every millisecond, for ever."""
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.perf_counter() - before - 0.001)

    def take(self) -> float:
        """Return the longest stall since the last call, in milliseconds."""
        longest, self.longest = self.longest, 0.0
        return longest * 1e3


class Updates:
    """Counts the updates of pods, and when the first and the last of those that are awaited came."""

    def __init__(self, awaited: int) -> None:
        self._awaited, self._seen = awaited, 0
        self.first, self.last = (0.0, 0.0), (0.0, 0.0)
        self.complete = asyncio.Event()

    def note(self, _: Pod, __: Pod) -> None:
        """Count one."""
        self._seen += 1
        if self._seen == 1:
            self.first = _now()
        if self._seen == self._awaited:
            self.last = _now()
            self.complete.set()


async def follow(url: str, events: int) -> dict[str, float]:
    """List and watch; rates are per second of the clock, `_cpu` ones per second of processor time."""
    cluster = Cluster()
    nodes, pods = cluster.nodes, cluster.store(Pod)
    updates = Updates(events)
    pods.subscribe(on_update=updates.note)
    client = Client(Connection.to(Access(url)))
    stalls = Stalls()
    watching = asyncio.create_task(stalls.watch())
    gc.collect()
    begin_listing()
    memory, began = machine.resident_bytes(os.getpid()), _now()
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(600)
        wall, cpu = _since(began)
        list_stall = stalls.take()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        gc.collect()
        used = machine.resident_bytes(os.getpid()) - memory
        assert int(nodes.requested[:, 3].sum()) == len(pods), "every pod counts on its node"
        assert nodes.present.sum() == len(cluster.store(Node))
        tune_memory()
        await asyncio.sleep(0.01)  # what was done here since the list counts as a stall of its own
        stalls.take()
        async with asyncio.timeout(600):
            await updates.complete.wait()
        watch_wall, watch_cpu = (b - a for a, b in zip(updates.first, updates.last, strict=True))
        watch_stall = stalls.take()
    watching.cancel()
    await client.close()
    return {
        "pods": len(pods) / wall,
        "pods_cpu": len(pods) / cpu,
        "pod_bytes": used / len(pods),
        "megabytes": used / 1e6,
        "peak": peak / 1024,
        "list_stall": list_stall,
        "events": (events - 1) / watch_wall,
        "events_cpu": (events - 1) / watch_cpu,
        "watch_stall": watch_stall,
    }


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = _now()
    return wall - began[0], cpu - began[1]


if __name__ == "__main__":
    print(json.dumps(uvloop.run(follow(sys.argv[1], int(sys.argv[2])))))
