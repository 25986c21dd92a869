"""The API server's HTTP/1.1: requests in, whole answers or endless streams out.

A web framework costs more than serving a stored object; this is only a protocol on httptools
(`connection.py`). A handler gets a `Request` and returns a `Response`, a `Stream`, or a coroutine of one of
them.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

log = logging.getLogger(__name__)

MAX_BODY = 3 * 1024 * 1024
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

    def head(self, keep_alive: bool) -> bytes:
        """The status line and the header fields as they go over the wire."""
        head = [
            _STATUS_LINES.get(self.status) or b"HTTP/1.1 %d Status\r\n" % self.status,
            b"Content-Type: %b\r\nContent-Length: %d\r\n" % (self.content_type.encode(), len(self.body)),
        ]
        for name, value in self.headers:
            head.append(f"{name}: {value}\r\n".encode("latin-1", "replace"))
        head.append(b"\r\n" if keep_alive else b"Connection: close\r\n\r\n")
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
        self._written: Callable[[], None] | None = None
        self.closed = False

    def open(
        self, transport: asyncio.Transport, ended: Callable[[], None], written: Callable[[], None]
    ) -> None:
        """Send the headers; `ended` is called when the stream ended by itself, `written` after each chunk."""
        self._transport = transport
        self._ended = ended
        self._written = written
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
        if self._written is not None:
            self._written()

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
