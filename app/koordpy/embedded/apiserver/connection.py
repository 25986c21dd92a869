"""One connection of the API server: parses requests, answers them in order, and holds little on the way."""

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Any, Protocol, cast

import httptools
import msgspec

from koordpy.lib import request_origin

from .connections import Connections
from .wire import MAX_BODY, Cut, Handler, Request, Response, Stream

_MOST_WAITING = 16
"""Requests that wait behind the current one before the connection is no longer read."""

_LINGER = 2.0
"""Seconds in which a client that was refused may send the rest of its request."""

_PIECE = 16 << 10
"""Bytes that are parsed at once, and so the most that is parsed after a connection has enough requests."""


class _Parser(Protocol):
    def feed_data(self, data: bytes | memoryview) -> None: ...
    def get_method(self) -> bytes: ...
    def should_keep_alive(self) -> bool: ...
    def should_upgrade(self) -> bool: ...


class Connection(asyncio.Protocol):
    """One client's connection. Requests are answered in order, one at a time."""

    def __init__(self, handler: Handler, connections: Connections) -> None:
        self._handler = handler
        self._connections = connections
        self._limits = connections.limits
        self._loop = asyncio.get_running_loop()
        self._parser: _Parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._unparsed = memoryview(b"")
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stream: Stream | None = None
        self._busy = False
        self._refused = False
        self._next_is_scheduled = False
        self._silent = 0
        self._discarded = 0
        self._current = 0
        self._read_size = 0
        self.held = 0
        """Bytes of requests that have no answer."""
        self.requests = 0
        self.since = self._loop.time()
        """When the connection became idle, or the unfinished request began."""
        self.stuck_since: float | None = None
        """Since when nothing of the current answers was read."""
        self._new_message()

    def _new_message(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._fields: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._body: list[bytes] = []
        self._body_size = 0
        self._receiving = False

    # what the bounds of all connections need

    @property
    def idle(self) -> bool:
        """Whether the client has neither sent a part of a request nor waits for an answer."""
        return not self._busy and not self._receiving and not self._waiting and self.stuck_since is None

    @property
    def unread(self) -> int:
        """Bytes of answers that the client has not read."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def is_slow(self, now: float) -> bool:
        """Whether the client takes too long for a request."""
        waits = self._busy or self._waiting
        return self._receiving and not waits and now - self.since > self._limits.slow

    def is_stuck(self, now: float) -> bool:
        """Whether the client has not read anything for too long; call it regularly."""
        if self.stuck_since is None:
            return False
        size = self.unread
        if size < self._read_size:
            self.stuck_since = now
        self._read_size = size
        return now - self.stuck_since > self._limits.stuck

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the work for the client."""
        self._transport = None
        self._refused = True
        self._waiting.clear()
        self._new_message()
        self._current = 0
        self._unparsed = memoryview(b"")
        self._account()
        self._connections.discard(self)
        if self._stream is not None:
            self._stream.connection_lost()
            self._stream = None
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what the client sent, as far as the connection has few requests."""
        if self._refused:
            self._discarded += len(data)
            if self._discarded > MAX_BODY:
                self.close(abort=True)
        else:
            self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
            self._parse()

    def eof_received(self) -> bool:
        """Close when the client half-closes."""
        return False

    def pause_writing(self) -> None:
        """Answer nothing further until the client reads."""
        self.stuck_since = self._loop.time()
        self._read_size = self.unread
        self._connections.relieve_unread()

    def resume_writing(self) -> None:
        """Go on with the next request."""
        self.stuck_since = None
        self._schedule_next()

    def _parse(self) -> None:
        try:
            while self._unparsed and not self._refused and len(self._waiting) < _MOST_WAITING:
                piece, self._unparsed = self._unparsed[:_PIECE], self._unparsed[_PIECE:]
                self._silent += len(piece)
                self._parser.feed_data(piece)
                if self._silent > self._limits.head:
                    self._refuse(431, f"the request's head is larger than {self._limits.head} bytes")
        except httptools.HttpParserUpgrade:
            self._refused = True  # the request is answered as any other; what follows is no HTTP
            self._unparsed = memoryview(b"")
        except httptools.HttpParserError as error:
            self._refuse(400, f"not HTTP: {error}")
        self._account()
        if self._transport is not None and not self._transport.is_closing():
            if self._unparsed or len(self._waiting) >= _MOST_WAITING:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _account(self) -> None:
        """Update how much is held for requests without an answer."""
        waiting = sum(_size(request) for request, _ in self._waiting)
        held = len(self._unparsed) + self._head_size + self._body_size + waiting + self._current
        self._connections.received += held - self.held
        self.held = held
        if self._connections.received > self._limits.received:
            self._connections.relieve_received()

    # httptools callbacks

    def on_message_begin(self) -> None:
        """Note when the request began."""
        self._silent = 0
        self._receiving = True
        self.since = self._loop.time()

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        self._silent = 0
        self._url += url
        self._head_size += len(url)
        if len(self._url) > self._limits.url:
            self._refuse(414, f"the URL is longer than {self._limits.url} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header field."""
        if self._refused:
            return
        self._silent = 0
        self._head_size += len(name) + len(value)
        name = name.lower()
        self._headers[name] = value
        self._fields.append((name, value))
        if self._head_size > self._limits.head:
            self._refuse(431, f"the request's head is larger than {self._limits.head} bytes")
        elif len(self._fields) > self._limits.fields:
            self._refuse(431, f"the request has more than {self._limits.fields} header fields")

    def on_headers_complete(self) -> None:
        """Refuse what needs no body to be refused; send 100 Continue to a client that waits for it."""
        if self._refused:
            return
        length = self._headers.get(b"content-length", b"")
        problem = request_origin.refusal(self._fields, self._connections.names)
        if problem is not None:
            self._refuse(403, problem)
        elif length.isdigit() and (len(length) > 18 or int(length) > MAX_BODY):
            self._refuse(413, f"Request entity too large: limit is {MAX_BODY}")
        elif self._headers.get(b"expect", b"").lower() == b"100-continue" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_chunk_header(self) -> None:
        """Note that the client sends parts of a body."""
        self._silent = 0

    def on_body(self, data: bytes) -> None:
        """Collect the body."""
        self._silent = 0
        if self._refused:
            return
        self._body_size += len(data)
        self._body.append(data)
        if self._body_size > MAX_BODY:
            self._refuse(413, f"Request entity too large: limit is {MAX_BODY}")

    def on_message_complete(self) -> None:
        """Answer the request, or queue it behind the current one."""
        if self._refused:
            return
        self._silent = 0
        self.requests += 1
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        method = self._parser.get_method().decode("latin-1")
        request = Request(method, self._url, self._headers, body)
        keep_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        self._new_message()
        if self._busy or self._waiting or self.stuck_since is not None:
            self._waiting.append((request, keep_alive))
        else:
            self._serve(request, keep_alive)

    # answering

    def _serve(self, request: Request, keep_alive: bool) -> None:
        self._busy = True
        self._current = _size(request)
        try:
            answer = self._handler(request)
        except Cut:
            self.close(abort=True)
            return
        if isinstance(answer, Response | Stream):
            self._answer(request, keep_alive, answer)
        else:
            self._task = self._loop.create_task(self._wait(request, keep_alive, answer))

    async def _wait(self, request: Request, keep_alive: bool, answer: Awaitable[Any]) -> None:
        try:
            found = await answer
        except Cut:
            self.close(abort=True)
            return
        self._task = None
        self._answer(request, keep_alive, found)

    def _answer(self, request: Request, keep_alive: bool, answer: Response | Stream) -> None:
        self._current = 0
        transport = self._transport
        if transport is None or transport.is_closing():
            if isinstance(answer, Stream):
                answer.connection_lost()
            return
        if isinstance(answer, Response):
            head = answer.head(keep_alive)
            if request.method == "HEAD" or not answer.body:
                transport.write(head)
            else:
                transport.writelines((head, answer.body))
            self._done(keep_alive)
        else:
            self._account()
            self._stream = answer
            answer.open(transport, lambda: self._done(keep_alive), self._written)

    def _written(self) -> None:
        if self.stuck_since is not None:
            self._connections.relieve_unread()

    def _done(self, keep_alive: bool) -> None:
        self._busy = False
        self._stream = None
        if not keep_alive:
            self.close()
        else:
            self.since = self._loop.time()
            self._schedule_next()
        self._account()

    def _schedule_next(self) -> None:
        """Serve the next request when others had their turn."""
        if (self._waiting or self._unparsed) and not self._next_is_scheduled:
            self._next_is_scheduled = True
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._next_is_scheduled = False
        if self._busy or self._refused or self._transport is None or self.stuck_since is not None:
            return
        if self._waiting:
            self._serve(*self._waiting.popleft())
        self._parse()

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error and close the connection."""
        self._refused = True
        self._unparsed = memoryview(b"")
        self._waiting.clear()
        self._new_message()
        if self._transport is not None and not self._transport.is_closing():
            answer = Response(_status(status, message), status)
            self._transport.writelines((answer.head(keep_alive=False), answer.body))
            # A client that still sends reads the answer later: closing now would reset the connection.
            self._transport.write_eof()
            self._loop.call_later(_LINGER, self.close)

    def close(self, abort: bool = False) -> None:
        """Close the connection; an open stream is ended first."""
        if self._stream is not None and not abort:
            self._stream.end()
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()


def _size(request: Request) -> int:
    return len(request.body) + len(request.path) + len(request.raw_query)


_REASONS = {400: "BadRequest", 403: "Forbidden", 413: "RequestEntityTooLarge"}


def _status(code: int, message: str) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": _REASONS.get(code, "BadRequest"),
            "code": code,
        }
    )
