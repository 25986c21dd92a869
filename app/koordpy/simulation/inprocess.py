"""The network of a simulation: callers and servers of one process, without sockets and HTTP between them.

Requests and answers are the same bytes as on the wire, and the same code reads and writes them. Only what
handles network problems is omitted: connections, timeouts, bookmarks and the renewal of watches.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from koordpy.cluster.connection import JSON
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.verbs.watching import LONGEST_WATCH
from koordpy.embedded.apiserver.wire import Answer, Request, Stream
from koordpy.embedded.apiserver.wire import Response as Answered
from koordpy.http.server.direct import Direct, Reply
from koordpy.lib.http1 import ConnectionLost, Response, StreamingResponse

_HEADERS = [(b"content-type", b"application/json")]
_FOR_EVER = f"timeoutSeconds={LONGEST_WATCH}"
_RENEWALS = re.compile(r"timeoutSeconds=\d+")
_BOOKMARKS = re.compile(r"&?allowWatchBookmarks=\w+")


class ServerChannel:
    """The transport to an API server of this process, for `koordpy.cluster.client.Client`."""

    server = "in-process"

    def __init__(self, server: ApiServer) -> None:
        self._handle = server.handle

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = JSON,
        timeout: float = 30.0,
        gzip: bool = False,
    ) -> Response:
        """Have one request answered."""
        answer = await self._answer(method, path, body, content_type)
        if not isinstance(answer, Answered):
            raise ConnectionLost("a watch was requested as a finite response", answered=True)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
        return Response(answer.status, headers, answer.body)

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, timeout: float = 30.0
    ) -> AsyncIterator[StreamingResponse]:
        """Open a watch. It does not time out: a server of the same process cannot vanish."""
        path = _BOOKMARKS.sub("", _RENEWALS.sub(_FOR_EVER, path))
        answer = await self._answer(method, path, b"", JSON)
        if isinstance(answer, Answered):
            response = _Patient(answer.status)
            response.feed(answer.body)
            response.end(None)
            yield response
            return
        response = _Patient(200)
        answer.open_here(response.feed, lambda: response.end(None))
        try:
            yield response
        finally:
            answer.connection_lost()

    async def close(self) -> None:
        """Only watches are open, and these end with their readers."""

    async def _answer(self, method: str, path: str, body: bytes, content_type: str) -> Answer:
        headers = {b"content-type": content_type.encode("latin-1"), b"accept": b"application/json"}
        found = self._handle(Request(method, path.encode("latin-1"), headers, body))
        if not isinstance(found, Answered | Stream):
            found = await found
        return found


class _Patient(StreamingResponse):
    """A stream whose silence means that nothing changed."""

    def __init__(self, status: int) -> None:
        super().__init__(self, status, [])

    def resume(self) -> None:
        """Do nothing: writers never wait for readers."""

    async def read(self, timeout: float | None = None) -> bytes:
        """Return available data, waiting for it without a timeout."""
        return await super().read(None)


class EndpointCaller:
    """Calls endpoints of this process like an `HttpClient` of their origin.

    An endpoint is found by its whole path, or by the last part of it, since the scheduler's configuration
    decides where an extender is mounted.
    """

    def __init__(self, origin: str, endpoints: Mapping[str, Direct]) -> None:
        self.origin = origin
        self._endpoints = dict(endpoints)
        self._by_verb = {path.rpartition("/")[2]: endpoint for path, endpoint in endpoints.items()}

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | bytes = b"",
        body: bytes = b"",
        timeout: float = 30.0,
        repeatable: bool | None = None,
    ) -> Response:
        """Have one request answered; one to a path that is not served gets a 404."""
        path = path.partition("?")[0]
        endpoint = self._endpoints.get(path) or self._by_verb.get(path.rpartition("/")[2])
        if endpoint is None:
            return Response(404, [], b"not found")
        if method != "POST":
            reply: Reply | None = endpoint.not_allowed(method)
        else:
            answer = endpoint.respond(_HEADERS, body, _never)
            reply = answer if isinstance(answer, Reply) else await answer
        assert reply is not None, "callers in this process do not disconnect"
        if reply.after is not None:
            reply.after()
        return Response(reply.status, [], reply.body)

    async def close(self) -> None:
        """Nothing is open."""


async def _never() -> None:
    await asyncio.get_running_loop().create_future()
