"""An API server that has nothing but lists: clusters of any size, ready in a moment.

`python -m bench.worlds PORT WORLD...` serves each world under its name (`http://127.0.0.1:PORT/nodes-5000`):
`profiles-N` has N ClusterColocationProfiles, `nodes-N` N nodes with NodeMetrics, `pods-N` N running pods.
Whatever else is asked for is an empty list. Watches stay open; one of a pods world with `?burst=M` sends M
updates as fast as they are read.

An API server keeps its objects as documents; a hundred thousand pods would take gigabytes and most of the
time. Here pages are bytes that were made before.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from bench import objects, pods
from koordpy.embedded.apiserver.wire import Answer, Connection, Request, Response, Stream, listen

_VERSION = "5000000"
_EMPTY: list[bytes] = []

Lists = dict[str, list[bytes]]


def profiles(count: int) -> Lists:
    """A cluster's namespaces, priority classes and profiles."""
    return {
        "/api/v1/namespaces": _encoded(objects.namespaces()),
        "/apis/scheduling.k8s.io/v1/priorityclasses": _encoded(objects.priority_classes()),
        "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles": _encoded(objects.profiles(count)),
    }


def nodes(count: int) -> Lists:
    """A cluster's nodes and what they report."""
    return {
        "/api/v1/nodes": _encoded(objects.nodes(count)),
        "/apis/slo.koordinator.sh/v1alpha1/nodemetrics": _encoded(objects.node_metrics(count)),
        "/api/v1/namespaces": _encoded(objects.namespaces()),
    }


def running_pods(count: int) -> Lists:
    """A cluster's pods."""
    return {"/api/v1/pods": list(map(pods.pod_json, range(count)))}


WORLDS: dict[str, Callable[[int], Lists]] = {"profiles": profiles, "nodes": nodes, "pods": running_pods}


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


class Worlds:
    """The worlds of one server by name; each is made when it is first asked for."""

    def __init__(self, names: Iterable[str]) -> None:
        self._makers: dict[str, Callable[[], Lists]] = {}
        self._made: dict[str, Lists] = {}
        for name in names:
            kind, _, count = name.partition("-")
            if kind not in WORLDS or not count.isdecimal():
                raise ValueError(f"world {name!r}: expected one of {', '.join(WORLDS)}, a dash and a number")
            self._makers[name] = partial(WORLDS[kind], int(count))

    def handle(self, request: Request) -> Answer:
        """Answer a request."""
        world, _, path = request.path[1:].partition("/")
        if world == "readyz":
            return Response(b"ok", content_type="text/plain")
        if world not in self._makers:
            return Response(b"{}", 404)
        if world not in self._made:
            self._made[world] = self._makers[world]()
        items = self._made[world].get(f"/{path}", _EMPTY)
        if request.flag("watch"):
            return Stream(partial(_send, _updates(int(request.query.get("burst", 0)), items)))
        return _page(items, int(request.query.get("limit", 0)), int(request.query.get("continue", 0)))


def _page(items: list[bytes], limit: int, start: int) -> Response:
    end = start + limit if limit else len(items)
    metadata = {"resourceVersion": _VERSION}
    if end < len(items):
        metadata["continue"] = str(end)
    head = json.dumps({"kind": "List", "apiVersion": "v1", "metadata": metadata})[:-1].encode()
    return Response(head + b',"items":[' + b",".join(items[start:end]) + b"]}")


def _updates(count: int, items: list[bytes]) -> Iterator[bytes]:
    for i in range(count):
        pod = pods.pod_json(i % len(items), version=10 + i // len(items))
        yield b'{"type":"MODIFIED","object":' + pod + b"}\n"


def _send(events: Iterator[bytes], stream: Stream) -> None:
    """Write events, a chunk at a time, as fast as the client takes them."""
    batches = list(events)

    def more() -> None:
        transport = stream._transport
        if stream.closed or transport is None:
            return
        if transport.get_write_buffer_size() < 1 << 20:
            for event in batches[:64]:
                stream.write(event)
            del batches[:64]
        if batches:
            asyncio.get_running_loop().call_later(0.0005, more)

    more()


async def serve(port: int, names: list[str]) -> None:
    """Serve until the process ends."""
    worlds = Worlds(names)
    connections: set[Connection] = set()
    server = await listen(worlds.handle, "127.0.0.1", port, connections)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2:]))
