"""A cluster with hot and cool nodes, whose NodeMetrics report every pod: what a descheduler works on.

Pods are those of `bench.pods`, thirty on each node of 32 cores, twenty of one ReplicaSet. Most nodes are
cool, some are neither, and of a hundred nodes `HOT_OF_100` are above the shipped high thresholds of
LowNodeLoad.

`python -m bench.hot_cluster PORT NODES hot|cool` serves it: lists of nodes, pods, NodeMetrics and ReplicaSets
are bytes that were made before, and their watches silent; everything else is the embedded API server's.
"""

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import objects, pods
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.listener import Listener
from koordpy.embedded.apiserver.wire import Answer, Request, Response, Stream

PODS_OF_A_NODE = 30
REPLICAS = 20
HOT_OF_100 = 5
WARM_OF_100 = 35

CRDS = Path(__file__).parents[1] / "deploy" / "crds"

CORES, GIB = 32, 1 << 30
MEMORY = 128 * GIB
_VERSION = "5000000"
_SYSTEM_MILLI, _SYSTEM_BYTES = 500, 2 * GIB

Document = dict[str, Any]


def pod_json(i: int, nodes: int) -> bytes:
    """Return the i-th pod; migrations by Reservation are for pods of Koordinator's scheduler only."""
    return pods.pod_json(i, nodes).replace(b'"default-scheduler"', b'"koord-scheduler"')


def replica_set(workload: int) -> Document:
    """Return the owner of the pods of a workload."""
    document = pods.pod(workload * REPLICAS)
    owner = document["metadata"]["ownerReferences"][0]
    labels = {"pod-template-hash": "7d9f8b6c5", "app.kubernetes.io/name": f"app-{workload}"}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": owner["name"],
            "namespace": document["metadata"]["namespace"],
            "uid": owner["uid"],
            "resourceVersion": str(1000 + workload),
        },
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": document["spec"]},
        },
        "status": {"replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS},
    }


def busy_percent(i: int, *, hot: bool) -> int:
    """Return how many percent of the i-th node's CPU are used; with `hot`, some nodes are above 75."""
    kind = i * 37 % 100
    if kind < HOT_OF_100 and hot:
        return 80 + i % 12
    if kind < HOT_OF_100 + WARM_OF_100:
        return 48 + i % 24
    return 12 + i % 28


def node_metric(i: int, nodes: int, *, hot: bool) -> Document:
    """Return what the i-th node reports of itself and of its pods."""
    percent = busy_percent(i, hot=hot)
    milli = CORES * 10 * percent - _SYSTEM_MILLI
    memory = MEMORY // 100 * (25 + percent // 3) - _SYSTEM_BYTES
    shares = [1 + (i + 7 * k) % 5 for k in range(PODS_OF_A_NODE)]
    whole = sum(shares)
    measured = []
    for k, share in enumerate(shares):
        number = i + k * nodes
        workload = number // REPLICAS
        measured.append(
            {
                "namespace": f"team-{workload % 50}",
                "name": f"app-{workload}-7d9f8b6c5-{number:05x}",
                "priority": "koord-prod" if workload % 3 else "koord-batch",
                "qos": "LS" if workload % 3 else "BE",
                "podUsage": {
                    "resources": {"cpu": f"{milli * share // whole}m", "memory": str(memory * share // whole)}
                },
            }
        )
    used = {"cpu": f"{CORES * 10 * percent}m", "memory": str(memory + _SYSTEM_BYTES)}
    document = objects.node_metric(i)
    document["metadata"] = {
        **document["metadata"],
        "uid": f"{i:08x}-7777-4000-8000-000000000000",
        "resourceVersion": str(1 + i),
    }
    document["status"] = {
        "updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeMetric": {
            "nodeUsage": {"resources": used},
            "systemUsage": {"resources": {"cpu": f"{_SYSTEM_MILLI}m", "memory": str(_SYSTEM_BYTES)}},
        },
        "podsMetric": measured,
    }
    return document


class HotCluster:
    """Requests to an API server that has such a cluster."""

    def __init__(self, nodes: int, *, hot: bool) -> None:
        workloads = nodes * PODS_OF_A_NODE // REPLICAS
        self._rest = ApiServer(crds=[CRDS])
        self._lists = {
            "/api/v1/nodes": ("v1", "NodeList", _encoded(_node(i) for i in range(nodes))),
            "/api/v1/pods": (
                "v1",
                "PodList",
                [pod_json(i, nodes) for i in range(nodes * PODS_OF_A_NODE)],
            ),
            "/apis/apps/v1/replicasets": (
                "apps/v1",
                "ReplicaSetList",
                _encoded(replica_set(i) for i in range(workloads)),
            ),
            "/apis/slo.koordinator.sh/v1alpha1/nodemetrics": (
                "slo.koordinator.sh/v1alpha1",
                "NodeMetricList",
                _encoded(node_metric(i, nodes, hot=hot) for i in range(nodes)),
            ),
        }

    async def serve(self, port: int) -> None:
        """Serve until the process ends."""
        await self._rest.load()
        await Listener(self._handle).start("127.0.0.1", port)
        await asyncio.Event().wait()

    def _handle(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        known = self._lists.get(request.path)
        if known is None or request.method != "GET":
            return self._rest.handle(request)
        api_version, kind, items = known
        if not request.flag("watch"):
            start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or 0)
            return _page(api_version, kind, items, start, start + limit if limit else len(items))
        if "sendInitialEvents" in request.query:
            return _without_streaming_lists()
        return Stream(lambda stream: None)


def _page(api_version: str, kind: str, items: list[bytes], start: int, end: int) -> Response:
    metadata = {"resourceVersion": _VERSION}
    if end < len(items):
        metadata["continue"] = str(end)
    head = json.dumps({"kind": kind, "apiVersion": api_version, "metadata": metadata})[:-1].encode()
    return Response(head + b',"items":[' + b",".join(items[start:end]) + b"]}")


def _without_streaming_lists() -> Response:
    """Refuse, as API servers that cannot list within a watch do: the client lists instead."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        "reason": "Invalid",
        "code": 422,
    }
    return Response(json.dumps(status).encode(), 422)


def _node(i: int) -> Document:
    document = objects.node(i)
    identity = {"uid": f"{i:08x}-5555-4000-8000-000000000000", "resourceVersion": str(1 + i)}
    return {**document, "metadata": {**document["metadata"], **identity}}


def _encoded(documents: Iterable[Document]) -> list[bytes]:
    return [json.dumps(document, separators=(",", ":")).encode() for document in documents]


if __name__ == "__main__":
    asyncio.run(HotCluster(int(sys.argv[2]), hot=sys.argv[3] == "hot").serve(int(sys.argv[1])))
