"""Processor time of filter, score ahead and prioritize in process, without HTTP, for a profiler.

`python -m bench.extender_cycle [--world numa-5000-1000] [--chain bench/full-chain.yaml] [--koordpy-chooses]`

The world is one of `bench.worlds`; `--chain stock` is LoadAwareScheduling and plugins of kube-scheduler.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

from bench import numa_objects, objects, worlds
from bench.extender import FULL_CHAIN, Make, reserving_pod, with_uid
from koordpy.api.scheme import RESOURCES, decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.registry import Place, build

STOCK = (
    ("NodeUnschedulable", 1), ("NodeName", 1), ("TaintToleration", 3), ("NodeAffinity", 2), ("NodePorts", 1),
    ("NodeResourcesFit", 1), ("LoadAwareScheduling", 1),
)  # fmt: skip


def _selective(i: int) -> objects.Document:
    pod = objects.waiting_pod(i)
    pod["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone": "zone-1"}
    return pod


PODS: dict[str, Make] = {
    "plain": numa_objects.waiting_pod,
    "reserving": reserving_pod,
    "selective": _selective,
    "numa": numa_objects.numa_pod,
}


def chain(name: str) -> config.SchedulerConfiguration:
    """Return a configuration, by its path or as `stock`."""
    if name != "stock":
        return config.load(Path(name))
    enabled = [{"name": name, "weight": weight} for name, weight in STOCK]
    return config.read({"kind": config.KIND, "apiVersion": "kubescheduler.config.k8s.io/v1",
                        "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]})  # fmt: skip


def extender_of(world: worlds.World, chosen: config.SchedulerConfiguration, *, chooses: bool) -> Extender:
    """Return an extender over a cluster with the objects of a world."""
    cluster = Cluster()
    base = Handle(cluster, client=None)
    profiles = build(chosen, lambda _: base.sibling(), place=Place.EXTENDER)
    extender = Extender(profiles, base, node_choice="koordpy" if chooses else "kube-scheduler")
    types = {resource.path(): type_ for type_, resource in RESOURCES.items()}
    for path, items in world.lists.items():
        store: Any = cluster.store(types[path])
        for item in items:
            store.apply(decode(types[path], json.loads(item)))
    for store in cluster.stores:
        store.synced = True
    while cluster.states.refresh_some(len(cluster.nodes)):
        pass
    return extender


def cycle(extender: Extender, pod: objects.Document, names: list[str]) -> dict[str, float]:
    """Filter and prioritize a pod; return seconds of processor time."""
    document = {"Pod": pod, "Nodes": None, "NodeNames": names}
    body = json.dumps(document, separators=(",", ":")).encode()
    started = time.process_time()
    answer, kept = extender.filter(body)
    filtered = time.process_time()
    if kept is not None:
        extender.work_ahead(kept)
    scored = time.process_time()
    passed = json.loads(answer)["NodeNames"]
    if not passed:
        raise RuntimeError(f"filter answered {answer[:300]!r}")
    found = {"filter": filtered - started, "score": scored - filtered}
    if len(passed) > 1:
        body = json.dumps({**document, "NodeNames": passed}, separators=(",", ":")).encode()
        started = time.process_time()
        extender.prioritize(body)
        found["prioritize"] = time.process_time() - started
    return found


async def main() -> None:
    """Print medians in milliseconds."""
    parser = argparse.ArgumentParser(prog="python -m bench.extender_cycle", description=__doc__)
    parser.add_argument("--world", default="numa-5000-1000")
    parser.add_argument("--chain", default=str(FULL_CHAIN))
    parser.add_argument("--pods", nargs="*", default=["plain", "reserving", "numa"], choices=PODS)
    parser.add_argument("--sizes", type=int, nargs="*", help="numbers of names")
    parser.add_argument("--attempts", type=int, default=40)
    parser.add_argument("--koordpy-chooses", action="store_true")
    options = parser.parse_args()
    began = time.process_time()
    world = worlds.maker(options.world)()
    extender = extender_of(world, chain(options.chain), chooses=options.koordpy_chooses)
    names = [objects.node_name(i) for i in range(len(world.lists["/api/v1/nodes"]))]
    print(f"{options.world} fed in {time.process_time() - began:.1f} s")
    rng, numbers = random.Random(1), iter(range(1 << 30))
    for kind in options.pods:
        for size in options.sizes or (500, len(names)):
            asked = []
            for _ in range(options.attempts):
                i = next(numbers)
                pod = with_uid(PODS[kind](i), i)
                start = rng.randrange(len(names))
                chosen = (names[start:] + names[:start])[:size]  # kube-scheduler goes round the nodes
                asked.append(cycle(extender, pod, chosen))
            sums = [sum(each.values()) * 1e3 for each in asked]
            medians = {part: statistics.median(each[part] for each in asked[1:]) for part in asked[-1]}
            parts = ", ".join(f"{part} {seconds * 1e3:.3f}" for part, seconds in medians.items())
            print(
                f"{kind} pod, {size} names: median {statistics.median(sums[1:]):.3f} ms ({parts}), "
                f"fastest {min(sums):.3f}, first {sums[0]:.3f}"
            )


if __name__ == "__main__":
    asyncio.run(main())
