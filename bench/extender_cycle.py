"""Time of filter, score ahead and prioritize in process, without HTTP: LoadAware and the stock plugins on.

`python -m bench.extender_cycle [nodes]`
"""

import json
import random
import statistics
import sys
import time
from datetime import UTC, datetime

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.profiles import config

PLUGINS = (
    ("NodeUnschedulable", 1), ("NodeName", 1), ("TaintToleration", 3), ("NodeAffinity", 2), ("NodePorts", 1),
    ("NodeResourcesFit", 1), ("LoadAwareScheduling", 1),
)  # fmt: skip


def cluster_of(count: int, rng: random.Random) -> Extender:
    """Return an extender over a cluster with three pods a node."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": config.KIND,
        "profiles": [
            {"plugins": {"multiPoint": {"enabled": [{"name": n, "weight": w} for n, w in PLUGINS]}}}
        ],
    }
    cluster = Cluster()
    extender = create(config.read(document), cluster, None)
    now = format_time(datetime.now(UTC))
    for i in range(count):
        name = f"node-{i:05d}.cluster.local"
        taints = [{"key": "dedicated", "value": "gpu", "effect": "PreferNoSchedule"}] if i % 7 == 0 else []
        cluster.store(Node).apply(
            decode(
                Node,
                {
                    "metadata": {
                        "name": name,
                        "uid": name,
                        "labels": {"zone": f"z{i % 3}", "hostname": name},
                    },
                    "spec": {"taints": taints},
                    "status": {"allocatable": {"cpu": "96", "memory": "512Gi", "pods": "110"}},
                },
            )
        )
        cluster.store(NodeMetric).apply(
            decode(
                NodeMetric,
                {
                    "metadata": {"name": name},
                    "status": {
                        "updateTime": now,
                        "nodeMetric": {
                            "nodeUsage": {"resources": {"cpu": f"{rng.randint(1, 60)}", "memory": "100Gi"}}
                        },
                    },
                },
            )
        )
        for j in range(3):
            cluster.store(Pod).apply(decode(Pod, pod(f"p-{i}-{j}", node_name=name)))
    for store in cluster.stores:
        store.synced = True
    return extender


def pod(name: str, node_name: str = "") -> dict[str, object]:
    """Return a typical pod."""
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {
            "nodeName": node_name,
            "nodeSelector": {"zone": "z1"} if name.startswith("selective") else {},
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}}},
                {
                    "name": "d",
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
                },
            ],
        },
    }


def main(count: int = 15_000) -> None:
    """Print medians in milliseconds."""
    rng = random.Random(1)
    began = time.perf_counter()
    extender = cluster_of(count, rng)
    print(f"{count} nodes, {3 * count} pods fed in {time.perf_counter() - began:.1f} s")
    names = [f"node-{i:05d}.cluster.local" for i in range(count)]
    for kind in ("plain", "selective"):
        body = json.dumps({"Pod": pod(f"{kind}-warm"), "NodeNames": names}).encode()
        extender.filter(body)
        for size in (500, 5_000):
            times: dict[str, list[float]] = {"filter": [], "score": [], "prioritize": []}
            for attempt in range(60):
                start = rng.randrange(count)
                chosen = (names[start:] + names[:start])[:size]  # kube-scheduler goes round the nodes
                document = {"Pod": pod(f"{kind}-{attempt}"), "Nodes": None, "NodeNames": chosen}
                body = json.dumps(document).encode()
                started = time.perf_counter()
                answer, kept = extender.filter(body)
                filtered = time.perf_counter()
                assert kept is not None
                extender.score_ahead(kept)
                scored = time.perf_counter()
                kept_names = json.loads(answer)["NodeNames"]
                body = json.dumps({**document, "NodeNames": kept_names}, separators=(",", ":")).encode()
                before = time.perf_counter()
                extender.prioritize(body)
                done = time.perf_counter()
                for key, value in zip(
                    times, (filtered - started, scored - filtered, done - before), strict=True
                ):
                    times[key].append(value * 1000)
            medians = {key: statistics.median(values[5:]) for key, values in times.items()}
            parts = ", ".join(f"{key} {value:.3f}" for key, value in medians.items())
            fastest = min(map(sum, zip(*times.values(), strict=True)))
            print(
                f"{kind} pod, {size} names: median {sum(medians.values()):.3f} ms ({parts}), "
                f"fastest {fastest:.3f} ms"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
