"""How fast and how small the view of the cluster is: list 150,000 pods, then follow a burst of updates.

The pods have two containers, status and managedFields, some 8 kB each, and come in pages over HTTP from a
process on the other core that has them ready as bytes. The node table is kept current meanwhile.
"""

import contextlib
import json
import subprocess

from bench import machine, servers
from bench.report import Result

PODS = 150_000
EVENTS = 50_000


def run(rounds: int = 3, pods: int = PODS, events: int = EVENTS) -> Result:
    """Measure, each round in a process of its own."""
    result = Result.begin("cluster", value="")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(servers.folder())
        port = servers.free_port()
        world = f"http://127.0.0.1:{port}/pods-{pods}-{events}"
        command = servers.module("worlds", str(port), f"pods-{pods}-{events}")
        ready = f"{world}/api/v1/pods?limit=1"  # the pods are made before the first round
        stack.enter_context(servers.running("worlds", command, ready, folder, machine.CLIENT_CORE))
        for _ in range(rounds):
            found = _follow(world, events)
            for key, label in _labels(pods, events).items():
                result.row(label).add(value=found[key])
    return result


def _labels(pods: int, events: int) -> dict[str, str]:
    return {
        "pods": f"initial list of {pods:,} pods: pods/s",
        "pods_cpu": "initial list: pods per CPU-second of the client",
        "pod_bytes": "memory a cached pod, bytes (indexes and node table included)",
        "megabytes": f"memory of {pods:,} pods, MB",
        "peak": "most memory that the process had while listing, MiB",
        "list_stall": "longest stall of the event loop while listing, ms",
        "events": f"watch, burst of {events:,} updates: events/s",
        "events_cpu": "watch: events per CPU-second of the client",
        "watch_stall": "longest stall of the event loop while watching, ms",
    }


def _follow(url: str, events: int) -> dict[str, float]:
    command = servers.module("follower", url, str(events))
    pinned = ["taskset", "--cpu-list", str(machine.SERVER_CORE), *command]
    done = subprocess.run(pinned, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the follower ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found
