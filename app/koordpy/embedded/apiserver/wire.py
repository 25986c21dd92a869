"""The API server's HTTP/1.1: requests in, whole answers or endless streams out.

A web framework costs more than serving a stored object; this is only a protocol on httptools. A handler gets
a `Request` and returns a `Response`, a `Stream`, or a coroutine of one of them. A direct answer is written
immediately, without a task.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, unquote

import httptools

log = logging.getLogger(__name__)

MAX_BODY = 3 * 1024 * 1024
_MAX_WAITING = 64
_STREAM_LIMIT = 64 * 1024 * 1024

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class Request:
    """One request, read completely."""

    __slots__ = ("_query", "body", "headers", "method", "path", "raw_query")

    def __init__(self, method: str, target: bytes, headers: dict[bytes, bytes], body: bytes) -> None:
        path, _, query = target.decode("latin-1").partition("?")
        self.method = method
        self.path = unquote(path) if "%" in path else path
        self.raw_query = query
        self.headers = headers
        self.body = body
        self._query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters; of one that is repeated, the first."""
        if self._query is None:
            pairs = parse_qsl(self.raw_query, keep_blank_values=True) if self.raw_query else ()
            self._query = {}
            for name, value in pairs:
                self._query.setdefault(name, value)
        return self._query

    def header(self, name: bytes) -> str:
        """A header's text (`name` in lower case), empty when it is absent."""
        return self.headers.get(name, b"").decode("latin-1")

    def flag(self, name: str) -> bool:
        """Whether a parameter is true, as Kubernetes reads it: present and not `false` or `0`."""
        return name in self.query and self.query[name].lower() not in ("false", "0")


class Response:
    """A whole answer."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        body: bytes,
        status: int = 200,
        content_type: str = "application/json",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.body = body
        self.status = status
        self.content_type = content_type
        self.headers = headers

    def encode(self, keep_alive: bool, with_body: bool = True) -> bytes:
        """The answer as it goes over the wire."""
        head = [
            _STATUS_LINES.get(self.status) or b"HTTP/1.1 %d Status\r\n" % self.status,
            b"Content-Type: %b\r\nContent-Length: %d\r\n" % (self.content_type.encode(), len(self.body)),
        ]
        for name, value in self.headers:
            head.append(f"{name}: {value}\r\n".encode("latin-1", "replace"))
        head.append(b"\r\n" if keep_alive else b"Connection: close\r\n\r\n")
        if with_body:
            head.append(self.body)
        return b"".join(head)


class Cut(Exception):
    """Raised by a handler to close the connection without an answer (fault injection)."""


class Stream:
    """An answer without an end, in chunks. `on_start` is called when the headers are out."""

    def __init__(self, on_start: Callable[["Stream"], None], content_type: str = "application/json") -> None:
        self.content_type = content_type
        self.on_start = on_start
        self.on_close: Callable[[], None] = lambda: None
        self._transport: asyncio.Transport | None = None
        self._sink: Callable[[bytes], object] | None = None
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._flush_scheduled = False
        self._ended: Callable[[], None] | None = None
        self.closed = False

    def open(self, transport: asyncio.Transport, ended: Callable[[], None]) -> None:
        """Send the headers; `ended` is called when the stream ended by itself."""
        self._transport = transport
        self._ended = ended
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {self.content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        transport.write(head.encode())
        self.on_start(self)

    def open_here(self, sink: Callable[[bytes], object], ended: Callable[[], None]) -> None:
        """Answer a reader in this process: data goes to `sink`, without HTTP."""
        self._sink = sink
        self._ended = ended
        self.on_start(self)

    def write(self, data: bytes) -> None:
        """Queue data; all data queued in one iteration of the event loop is sent as one chunk."""
        if self.closed:
            return
        self._pending.append(data)
        self._pending_size += len(data)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self.closed or not self._pending:
            return
        if self._sink is not None:
            data, self._pending, self._pending_size = b"".join(self._pending), [], 0
            self._sink(data)
            return
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size() + self._pending_size > _STREAM_LIMIT:
            log.warning("a watcher reads too slowly: its watch is ended")
            self.abort()
            return
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending, self._pending_size = [], 0
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        """Finish the answer properly; the connection can be used again."""
        if self.closed:
            return
        self._flush()
        if self.closed or (self._transport is None and self._sink is None):
            return
        if self._transport is not None:
            self._transport.write(b"0\r\n\r\n")
        self._finish()
        if self._ended is not None:
            self._ended()

    def abort(self) -> None:
        """Drop the connection; a reader in this process, which has none, sees the end."""
        if self._transport is not None:
            self._transport.abort()
        elif self._ended is not None and not self.closed:
            self._ended()
        self._finish()

    def connection_lost(self) -> None:
        """The client went away."""
        self._finish()

    def _finish(self) -> None:
        if not self.closed:
            self.closed = True
            self._pending = []
            self.on_close()


Answer = Response | Stream
Handler = Callable[[Request], Answer | Coroutine[Any, Any, Answer]]


class _Parser(Protocol):
    def feed_data(self, data: bytes) -> None: ...
    def get_method(self) -> bytes: ...
    def should_keep_alive(self) -> bool: ...


class Connection(asyncio.Protocol):
    """One client's connection. Requests are answered in order, one at a time."""

    def __init__(self, handler: Handler, connections: set["Connection"]) -> None:
        self._handler = handler
        self._connections = connections
        self._parser: _Parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stream: Stream | None = None
        self._busy = False
        self._new_message()

    def _new_message(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._body_size = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the work for the client."""
        self._connections.discard(self)
        self._transport = None
        self._waiting.clear()
        if self._stream is not None:
            self._stream.connection_lost()
            self._stream = None
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "upgrades are not supported")
        except httptools.HttpParserError as error:
            self._refuse(400, f"not HTTP: {error}")

    def eof_received(self) -> bool:
        """Close when the client half-closes."""
        return False

    # httptools callbacks

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Send 100 Continue to a client that waits for it."""
        if self._headers.get(b"expect", b"").lower() == b"100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """Collect the body."""
        self._body_size += len(data)
        if self._body_size <= MAX_BODY:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """Answer the request, or queue it behind the current one."""
        if self._body_size > MAX_BODY:
            self._refuse(413, f"Request entity too large: limit is {MAX_BODY}")
            self._new_message()
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        method = self._parser.get_method().decode("latin-1")
        request = Request(method, self._url, self._headers, body)
        keep_alive = self._parser.should_keep_alive()
        self._new_message()
        if self._busy:
            self._waiting.append((request, keep_alive))
            if len(self._waiting) > _MAX_WAITING:
                self._refuse(429, "too many requests on one connection")
        else:
            self._serve(request, keep_alive)

    # answering

    def _serve(self, request: Request, keep_alive: bool) -> None:
        self._busy = True
        try:
            answer = self._handler(request)
        except Cut:
            self.close(abort=True)
            return
        if isinstance(answer, Response | Stream):
            self._answer(request, keep_alive, answer)
        else:
            self._task = asyncio.get_running_loop().create_task(self._wait(request, keep_alive, answer))

    async def _wait(self, request: Request, keep_alive: bool, answer: Awaitable[Answer]) -> None:
        try:
            found = await answer
        except Cut:
            self.close(abort=True)
            return
        self._task = None
        self._answer(request, keep_alive, found)

    def _answer(self, request: Request, keep_alive: bool, answer: Answer) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            if isinstance(answer, Stream):
                answer.connection_lost()
            return
        if isinstance(answer, Response):
            transport.write(answer.encode(keep_alive, with_body=request.method != "HEAD"))
            self._done(keep_alive)
        else:
            self._stream = answer
            answer.open(transport, lambda: self._done(keep_alive))

    def _done(self, keep_alive: bool) -> None:
        self._busy = False
        self._stream = None
        if not keep_alive:
            self.close()
        elif self._waiting:
            self._serve(*self._waiting.popleft())

    def _refuse(self, status: int, message: str) -> None:
        if self._transport is not None:
            self._transport.write(Response(message.encode(), status, "text/plain").encode(keep_alive=False))
            self.close()

    def close(self, abort: bool = False) -> None:
        """Close the connection; an open stream is ended first."""
        if self._stream is not None and not abort:
            self._stream.end()
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()


async def listen(handler: Handler, host: str, port: int, connections: set[Connection]) -> asyncio.Server:
    """Serve on a port (0: a free one); `connections` holds those that are open."""
    loop = asyncio.get_running_loop()
    return await loop.create_server(
        lambda: Connection(handler, connections), host, port, backlog=1024, reuse_address=True
    )
