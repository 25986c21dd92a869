"""One HTTP/1.1 connection: bytes of a request out, a parsed response in, one exchange at a time.

An asyncio protocol on `httptools` instead of streams: no task, no buffer copy and no lock per request.
Everything that a server may send is limited (head, chunk overhead, body), because it may be a webhook or an
extender of a third party.
"""

import asyncio
import select
import zlib
from typing import Any, TypeVar, cast

import httptools

from .http1_response import (
    BadResponse,
    ConnectionLost,
    HttpError,
    RequestTimeout,
    Response,
    StreamingResponse,
    find_header,
)

R = TypeVar("R")

MAX_BODY = 256 << 20
"""Largest body that is collected in memory, bytes. Streams are not bounded."""

MAX_OVERHEAD = 256 << 10
"""The longest run of bytes outside the body: status line and headers, chunk extensions, trailers."""


class Connection(asyncio.Protocol):
    """A connection to `origin`; it is in `registry` as long as it is open."""

    def __init__(self, origin: str, registry: "set[Connection]") -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._registry = registry
        self._transport: asyncio.Transport | None = None
        self._poll: select.poll | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._future: asyncio.Future[Any] | None = None
        self._stream: StreamingResponse | None = None
        self._busy = False
        self._usable = False
        self._paused = False
        self._closing_reason = ""
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._inflate: zlib._Decompress | None = None
        self._failure: BadResponse | None = None
        self._begin("", streaming=False, limit=0, gzip=False)
        self._busy = False

    # --- called by the client --------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent."""
        return self._usable and not self._busy

    def is_quiet(self) -> bool:
        """Whether the socket has nothing to read; an idle one that has was closed by the server."""
        return self._poll is None or not self._poll.poll(0)

    async def fetch(self, method: str, data: bytes, deadline: float, limit: int, gzip: bool) -> Response:
        """Send a request and return the response; on an error or cancellation the connection is closed."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._future = future
        self._begin(method, streaming=False, limit=limit, gzip=gzip)
        return await self._finish(future, data, deadline)

    async def open_stream(self, method: str, data: bytes, deadline: float) -> StreamingResponse:
        """Send a request and return as soon as status and headers have arrived."""
        future: asyncio.Future[StreamingResponse] = asyncio.get_running_loop().create_future()
        self._future = future
        self._begin(method, streaming=True, limit=0, gzip=False)
        return await self._finish(future, data, deadline)

    async def _finish(self, future: "asyncio.Future[R]", data: bytes, deadline: float) -> R:
        if self._transport is None or not self._usable:
            self._busy = False
            raise ConnectionLost(f"{self.origin}: the connection was closed before sending", answered=False)
        timer = asyncio.get_running_loop().call_at(deadline, self._on_deadline)
        try:
            self._transport.write(data)
            return await future
        except BaseException:
            self.abort("the request failed or was given up")
            raise
        finally:
            timer.cancel()
            self._future = None

    def abort(self, reason: str) -> None:
        """Close at once. An exchange in progress ends with ConnectionLost."""
        self._usable = False
        self._registry.discard(self)
        if self._transport is not None:
            self._closing_reason = self._closing_reason or reason
            self._transport.abort()
            self._break_off(ConnectionLost(f"{self.origin}: {reason}", answered=self._status != 0))

    def resume(self) -> None:
        """Resume reading from the network."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    # --- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Mark the connection as usable."""
        self._transport = transport = cast(asyncio.Transport, transport)
        self._usable = True
        self._registry.add(self)
        sock = transport.get_extra_info("socket")
        if sock is not None and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(sock.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)

    def data_received(self, data: bytes) -> None:
        """Parse data."""
        if not self._busy:
            self.abort("the server sent data without a request")
            return
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._failure = self._failure or BadResponse(f"{self.origin}: tried to upgrade the protocol")
        except httptools.HttpParserError as error:
            if self._failure is None and self._busy:
                self._failure = BadResponse(f"{self.origin}: not an HTTP response: {error}")
        if self._failure is None and self._busy and self._unread > MAX_OVERHEAD:
            self._failure = BadResponse(f"{self.origin}: more than {MAX_OVERHEAD} bytes of headers")
        if self._failure is not None:
            failure, self._failure = self._failure, None
            self._break_off(failure)
            self.abort(str(failure))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange: this completes a body without a length, and truncates any other response."""
        self._usable = False
        self._transport = None
        self._registry.discard(self)
        if not self._busy:
            return
        if self._status and exc is None and not self._closing_reason and self._ends_with_connection():
            self._complete()
            return
        reason = self._closing_reason or (str(exc) if exc else "the server closed the connection")
        self._break_off(ConnectionLost(f"{self.origin}: {reason}", answered=self._status != 0))

    # --- called by the parser --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a response; there is one per request, apart from informational ones."""
        if not self._busy:
            self._usable = False
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers are dropped."""
        if not self._status:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Read status and length."""
        status = self._parser.get_status_code()
        if not self._busy or 100 <= status < 200:
            return
        self._status = status
        encoding = find_header(self._headers, b"content-encoding")
        if encoding not in (None, "", "identity"):
            if encoding != "gzip" or not self._gzip:
                self._refuse(f"unexpected content-encoding {encoding!r}")
            self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
        if self._method == "HEAD":
            self._usable = False  # the parser would wait for a body
            self._complete()
        elif self._streaming:
            self._stream = StreamingResponse(self, status, self._headers)
            if self._future is not None and not self._future.done():
                self._future.set_result(self._stream)
        else:
            length = find_header(self._headers, b"content-length")
            if length is not None and length.isdecimal() and int(length) > self._limit:
                self._refuse(f"a body of {length} bytes, more than {self._limit}")

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self._unread = 0
        if not self._busy:
            return
        if self._inflate is not None:
            try:
                data = self._inflate.decompress(data, self._limit + 1)
            except zlib.error as error:
                self._refuse(f"broken gzip body: {error}")
        if self._stream is not None:
            if self._stream.feed(data) and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._size > self._limit:
            self._refuse(f"a body of more than {self._limit} bytes")

    def on_message_complete(self) -> None:
        """End the exchange."""
        if self._busy and self._status:
            if self._inflate is not None and not self._inflate.eof:
                self._refuse("a gzip body that breaks off")
            if not self._parser.should_keep_alive():
                self._usable = False
            self._complete()

    # --- the exchange ----------------------------------------------------------------------------

    def _begin(self, method: str, *, streaming: bool, limit: int, gzip: bool) -> None:
        self._method, self._streaming, self._limit, self._gzip = method, streaming, limit, gzip
        self._busy = True
        self._status = self._size = self._unread = 0
        self._headers, self._chunks, self._inflate = [], [], None

    def _complete(self) -> None:
        self._busy = False
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.end(None)
            self.resume()
        elif self._future is not None and not self._future.done():
            chunks, self._chunks = self._chunks, []
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
            if self._streaming:  # a response without a body
                stream = StreamingResponse(self, self._status, self._headers)
                stream.end(None)
                self._future.set_result(stream)
            else:
                self._future.set_result(Response(self._status, self._headers, body))

    def _break_off(self, error: HttpError) -> None:
        if not self._busy:
            return
        self._busy = False
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.end(error)
        elif self._future is not None and not self._future.done():
            self._future.set_exception(error)

    def _refuse(self, what: str) -> None:
        """Abort from within a parser callback."""
        self._failure = BadResponse(f"{self.origin}: {what}")
        raise self._failure

    def _on_deadline(self) -> None:
        self._break_off(RequestTimeout(f"{self.origin}: no response in time"))
        self.abort("no response in time")

    def _ends_with_connection(self) -> bool:
        names = {name.lower() for name, _ in self._headers}
        return b"content-length" not in names and b"transfer-encoding" not in names
