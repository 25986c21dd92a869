"""One collection of objects behind list and watch, whose misbehaviour a test dictates.

It is no API server: it serves one path, keeps what it is given, and can lose events, forget history, cut
watches, answer with errors and fall silent at the moment a test says.
"""

import asyncio
import json
from collections import deque
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.eventually import PATIENCE

from .raw import Exchange, RawServer, Request

Document = dict[str, Any]


def pod(name: str, *, uid: str = "", node: str = "", **labels: str) -> Document:
    """Return a pod document."""
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "c"}]},
    }


def status(code: int, reason: str, message: str = "no", **details: Any) -> bytes:
    """Return a Status document."""
    document = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return json.dumps(document).encode()


class Collection(RawServer):
    """Serves `/api/v1/pods` (or another path) for as long as it is entered."""

    def __init__(self, path: str = "/api/v1/pods", prefix: str = "") -> None:
        super().__init__(self._serve)
        self.path = path
        self.prefix = prefix
        """What resource versions begin with: with any they are no numbers."""
        self.version = 100
        self.documents: dict[str, Document] = {}
        self.history: list[tuple[int, str, Document]] = []
        self.compacted = 0
        """Watches from before this version get 410."""
        self.refusals: deque[tuple[int, bytes, str]] = deque()
        """Answers (status, body, header lines) that come instead of the next ones."""
        self.expire_continue = 0
        """How many requests for a further page get 410."""
        self.watches: list[asyncio.Queue[bytes | None]] = []

    # --- what happens in the cluster -------------------------------------------------------------

    def put(self, document: Document, *, silently: bool = False) -> Document:
        """Create or change an object; silently means that no watch will ever show it."""
        name = document["metadata"]["name"]
        kind = "MODIFIED" if name in self.documents else "ADDED"
        self.version += 1
        document = json.loads(json.dumps(document))
        document["metadata"]["resourceVersion"] = f"{self.prefix}{self.version}"
        self.documents[name] = document
        if not silently:
            self._happened(kind, document)
        return document

    def remove(self, name: str, *, silently: bool = False) -> None:
        """Delete an object."""
        self.version += 1
        document = self.documents.pop(name)
        document["metadata"]["resourceVersion"] = f"{self.prefix}{self.version}"
        if not silently:
            self._happened("DELETED", document)

    def forget_history(self) -> None:
        """Compact: every watch from an earlier version gets 410."""
        self.version += 1
        self.compacted = self.version
        self.history.clear()

    def send(self, data: bytes) -> None:
        """Write raw bytes into every open watch."""
        for queue in self.watches:
            queue.put_nowait(data)

    def send_event(self, kind: str, document: Document) -> None:
        """Write an event into every open watch, whatever it says."""
        self.send(_event(kind, document))

    def close_watches(self) -> None:
        """End every watch as a server does whose timeout has come."""
        for queue in self.watches:
            queue.put_nowait(None)

    def fall_silent(self) -> None:
        """Keep all watches open and never write into them again, as a peer that vanished."""
        self.watches.clear()

    async def watched(self, count: int = 1) -> None:
        """Wait until so many watches are open."""
        async with asyncio.timeout(PATIENCE):
            while len(self.watches) < count:
                await asyncio.sleep(0.001)

    def requests_of(self, *, watch: bool) -> Iterable[Request]:
        """Return the lists or the watches that were asked for."""
        return [r for r in self.requests if ("watch=1" in r.target) == watch]

    # --- how it is served ------------------------------------------------------------------------

    def _happened(self, kind: str, document: Document) -> None:
        self.history.append((self.version, kind, document))
        self.send_event(kind, document)

    async def _serve(self, exchange: Exchange) -> None:
        url = urlsplit(exchange.request.target)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        if self.refusals:
            code, body, headers = self.refusals.popleft()
            await exchange.reply(code, body, headers)
        elif url.path != self.path:
            await exchange.reply(404, b"404 page not found\n")
        elif "watch" in query:
            await self._watch(exchange, int(query["resourceVersion"].removeprefix(self.prefix)))
        else:
            await self._list(exchange, query)

    async def _list(self, exchange: Exchange, query: dict[str, str]) -> None:
        start, limit = int(query.get("continue", 0)), int(query.get("limit", 0))
        if start and self.expire_continue:
            self.expire_continue -= 1
            await exchange.reply(410, status(410, "Expired", "The provided continue parameter is too old"))
            return
        documents = list(self.documents.values())
        page = documents[start : start + limit] if limit else documents
        more = str(start + limit) if limit and start + limit < len(documents) else ""
        meta = {"resourceVersion": f"{self.prefix}{self.version}", "continue": more}
        body = json.dumps({"kind": "PodList", "metadata": meta, "items": page})
        await exchange.reply(200, body.encode())

    async def _watch(self, exchange: Exchange, version: int) -> None:
        if version < self.compacted:
            await exchange.reply(410, status(410, "Expired", "too old resource version"))
            return
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for happened, kind, document in self.history:
            if happened > version:
                queue.put_nowait(_event(kind, document))
        self.watches.append(queue)
        try:
            await exchange.begin_chunks()
            while (data := await queue.get()) is not None:
                await exchange.chunk(data)
            await exchange.chunk(b"")
        finally:
            if queue in self.watches:
                self.watches.remove(queue)


def _event(kind: str, document: Document) -> bytes:
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"
