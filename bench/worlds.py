"""An API server that has nothing but lists: clusters of any size, ready in a moment.

`python -m bench.worlds PORT WORLD...` serves each world under its name (`http://127.0.0.1:PORT/nodes-5000`):
`profiles-N` has N ClusterColocationProfiles, `nodes-N-R` N nodes with NodeMetrics and R Reservations,
`numa-N-R` the same with NUMA nodes, devices and quotas (`bench.numa_objects`), `single-N-R` those with the
policy SingleNUMANode, `pods-N-M` N running pods on 5,000 nodes. Whatever else is asked for is an empty list.
Watches stay open and silent, but for the pods of a pods world: some seconds after the watch began, M updates
come as fast as they are read.

An API server keeps its objects as documents; a hundred thousand pods would take gigabytes and most of the
time. Here pages are bytes that were made before.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench import numa_objects, objects, pods
from koordpy.embedded.apiserver.listener import Listener
from koordpy.embedded.apiserver.wire import Answer, Request, Response, Stream

NODES = 5_000
"""Nodes that the pods of a pods world are on."""

QUIET_SECONDS = 3.0
"""Between the beginning of a watch and its events."""

_VERSION = "5000000"
_BUFFERED = 4 << 20


@dataclass
class World:
    """Lists by path, and what watches of pods send."""

    lists: dict[str, list[bytes]]
    events: list[bytes] = field(default_factory=list)


def profiles(count: int) -> World:
    """A cluster's namespaces, priority classes and profiles."""
    return World(
        {
            "/api/v1/namespaces": _encoded(objects.namespaces()),
            "/apis/scheduling.k8s.io/v1/priorityclasses": _encoded(objects.priority_classes()),
            "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles": _encoded(
                objects.profiles(count)
            ),
        }
    )


def nodes(count: int, reservations: int = 0) -> World:
    """A cluster's nodes, what they report, and what is reserved on them."""
    return World(
        {
            "/api/v1/nodes": _encoded(objects.nodes(count)),
            "/apis/slo.koordinator.sh/v1alpha1/nodemetrics": _encoded(objects.node_metrics(count)),
            "/api/v1/namespaces": _encoded(objects.namespaces()),
            "/apis/scheduling.koordinator.sh/v1alpha1/reservations": _encoded(
                objects.reservation(i, count) for i in range(reservations)
            ),
        }
    )


def numa(count: int, reservations: int = 0, policy: str = "") -> World:
    """A cluster whose nodes have NUMA nodes, and half of them devices."""
    world = nodes(count, reservations)
    world.lists |= {
        "/api/v1/nodes": _encoded(numa_objects.nodes(count, policy)),
        "/api/v1/pods": _encoded(numa_objects.running_pods(count)),
        "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies": _encoded(
            numa_objects.topologies(count)
        ),
        "/apis/scheduling.koordinator.sh/v1alpha1/devices": _encoded(numa_objects.devices(count)),
        "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas": _encoded(numa_objects.quotas()),
    }
    return world


def running_pods(count: int, updates: int = 0) -> World:
    """A cluster's nodes and pods, and updates of the pods in turn."""
    lists = {
        "/api/v1/nodes": _encoded(objects.nodes(NODES)),
        "/api/v1/pods": [pods.pod_json(i, NODES) for i in range(count)],
    }
    return World(lists, [_update(i % count, 10 + i // count) for i in range(updates)])


WORLDS: dict[str, Callable[..., World]] = {
    "profiles": profiles,
    "nodes": nodes,
    "numa": numa,
    "single": partial(numa, policy=numa_objects.SINGLE_NUMA_NODE),
    "pods": running_pods,
}


def _update(i: int, version: int) -> bytes:
    return b'{"type":"MODIFIED","object":' + pods.pod_json(i, NODES, version) + b"}\n"


def _encoded(documents: Iterable[dict[str, Any]]) -> list[bytes]:
    """Give each object what an API server would have given it, and its bytes."""
    return [_with_identity(i, document) for i, document in enumerate(documents, 1)]


def _with_identity(i: int, document: dict[str, Any]) -> bytes:
    metadata = {
        **document["metadata"],
        "uid": f"{i:08x}-0000-4000-8000-000000000000",
        "resourceVersion": str(i),
        "creationTimestamp": "2026-01-01T10:00:00Z",
    }
    return json.dumps({**document, "metadata": metadata}, separators=(",", ":")).encode()


def maker(name: str) -> Callable[[], World]:
    """Return what makes the world of a name. Raises ValueError."""
    kind, *counts = name.split("-")
    if kind not in WORLDS or not counts or not all(map(str.isdecimal, counts)):
        raise ValueError(f"world {name!r}: expected one of {', '.join(WORLDS)}, a dash and a number")
    return partial(WORLDS[kind], *map(int, counts))


class Worlds:
    """The worlds of one server by name; each is made when it is first asked for."""

    def __init__(self, names: Iterable[str]) -> None:
        self._makers = {name: maker(name) for name in names}
        self._made: dict[str, World] = {}

    def handle(self, request: Request) -> Answer:
        """Answer a request."""
        name, _, path = request.path[1:].partition("/")
        if name == "readyz":
            return Response(b"ok", content_type="text/plain")
        if name not in self._makers:
            return Response(b"{}", 404)
        if name not in self._made:
            self._made[name] = self._makers[name]()
        world = self._made[name]
        if request.flag("watch"):
            return Stream(partial(_send, world.events if path == "api/v1/pods" else []))
        items = world.lists.get(f"/{path}", [])
        return _page(items, int(request.query.get("limit", 0)), int(request.query.get("continue") or 0))


def _page(items: list[bytes], limit: int, start: int) -> Response:
    end = start + limit if limit else len(items)
    metadata = {"resourceVersion": _VERSION}
    if end < len(items):
        metadata["continue"] = str(end)
    head = json.dumps({"kind": "List", "apiVersion": "v1", "metadata": metadata})[:-1].encode()
    return Response(head + b',"items":[' + b",".join(items[start:end]) + b"]}")


def _send(events: list[bytes], stream: Stream) -> None:
    """Write events, some at a time, as fast as the client takes them."""
    later = asyncio.get_running_loop().call_later

    def send_from(start: int) -> None:
        transport = stream._transport
        if stream.closed or transport is None:
            return
        if transport.get_write_buffer_size() < _BUFFERED:
            stream.write(b"".join(events[start : start + 64]))
            start += 64
        if start < len(events):
            later(0.0002, send_from, start)

    if events:
        later(QUIET_SECONDS, send_from, 0)


async def serve(port: int, names: list[str]) -> None:
    """Serve until the process ends."""
    worlds = Worlds(names)
    await Listener(worlds.handle).start("127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2:]))
