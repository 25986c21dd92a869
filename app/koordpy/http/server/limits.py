"""What one caller may ask of a listener in time and memory, so that others are always served.

A caller who sends slowly, half, too much or nothing, or does not read its answers, holds nothing but its own
connection, and that for a bounded time. Deadlines are looked at once a second for all connections together,
not by a timer for each request; they take the place of uvicorn's keep-alive timers too.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from math import inf
from typing import Any, Final, cast

from .direct import Direct
from .protocol import Exchange, Protocol

_GOODBYE_SECONDS: Final = 1.0
"""How long a caller who has got the last byte may take to close the connection."""

_FRAMING: Final = 8
"""Bytes of chunk sizes, extensions and trailers that are put up with for one byte of body."""


@dataclass(frozen=True)
class Limits:
    """The bounds of a listener.

    Seconds: `idle` between requests, `head` from the first byte of a request to the end of its header fields,
    `body` from there to its last byte, `reading` for an answer that the caller does not take. `head_bytes`
    bounds the header fields. At most as many bytes of unfinished bodies are in memory as `bodies` of the
    largest size have. Beyond `connections` the kernel's queue has to do.
    """

    idle: float = 75.0
    head: float = 10.0
    body: float = 30.0
    reading: float = 30.0
    head_bytes: int = 64 * 1024
    bodies: int = 8
    connections: int = 4096


@dataclass
class BodyMemory:
    """The bytes of unfinished bodies that all connections of a listener hold together."""

    held: int = 0


class _Phase(Enum):
    """Whose move it is, and which."""

    IDLE = "request"
    HEAD = "header fields"
    BODY = "body"
    OURS = "answer"


_IDLE, _HEAD, _BODY, _OURS = _Phase  # looked up for every header field


class LimitedProtocol(Protocol):
    """A connection that is kept within bounds."""

    def __init__(self, *args: Any, limits: Limits, memory: BodyMemory, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._limits, self._memory = limits, memory
        self._find: Any = self._direct_endpoint
        if self._find is not None:
            self._direct_endpoint = self._begin_direct
        self._phase = _IDLE
        self._deadline = self._reading_deadline = self._goodbye_deadline = inf
        self._moves = 0  # changes of phase
        self._received = 0  # bytes of the present phase, without those that it began with
        self._body = 0  # bytes of body among them
        self._held = 0  # bytes of body in memory

    def check(self, now: float) -> None:
        """Part with a caller whose time is up; `now` is the event loop's time."""
        if self.transport.is_closing():
            if now >= min(self._reading_deadline, self._goodbye_deadline):
                self.transport.abort()
            elif self._goodbye_deadline == inf and not self.transport.get_write_buffer_size():
                self._goodbye_deadline = now + _GOODBYE_SECONDS
        elif now >= self._reading_deadline:
            self.transport.abort()
        elif now >= self._deadline:
            self._deadline = inf
            if self._phase is _IDLE:
                self.transport.close()
            else:
                problem = f"the {self._phase.value} did not come in time"
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, problem)

    # --- the transport ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._expect(_IDLE, self._limits.idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what the connection held."""
        self._release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read, and see that what is no body stays small."""
        if self.transport.is_closing():
            return
        moves = self._moves
        super().data_received(data)
        if self._moves != moves:
            return  # how much of the data belongs to the present phase is not known, and does not matter
        if self._phase is _HEAD:
            self._received += len(data)
            if self._received > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the header fields are too large")
        elif self._phase is _BODY:
            self._received += len(data)
            if self._received > 2 * self._limits.head_bytes + _FRAMING * self._body:
                self._refuse(HTTPStatus.BAD_REQUEST, "there is more framing than body")

    def pause_writing(self) -> None:
        """Begin to wait for the caller to read; until then no more is read from it."""
        super().pause_writing()
        self.flow.pause_reading()
        self._reading_deadline = self.loop.time() + self._limits.reading

    def resume_writing(self) -> None:
        """Go on: the caller has read."""
        super().resume_writing()
        self.flow.resume_reading()
        self._reading_deadline = inf

    # --- the parser ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Await the header fields."""
        super().on_message_begin()
        self._expect(_HEAD, self._limits.head)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field; trailers are dropped."""
        if self._phase is _HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Await the body. That of a pipelined request may take long: nobody reads it yet."""
        busy = self.cycle is not None and not self.cycle.response_complete
        self._expect(_BODY, inf if busy else self._limits.body)
        super().on_headers_complete()

    def _begin_direct(self, url: str) -> Direct | None:
        """Find a direct endpoint whatever the query is: kube-apiserver sends `?timeout=10s`."""
        endpoint: Direct | None = self._find(url.partition("?")[0])
        if endpoint is None or self.parser.get_method() != b"POST":
            return None
        return endpoint.begin(self.headers)

    def on_body(self, body: bytes) -> None:
        """Keep a part of a body, where there is room for it."""
        self._body += len(body)
        exchange: Any = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_body(body)  # of these uvicorn keeps little: it reads as the application does
            return
        most = exchange.endpoint.max_body
        if self._body <= most and not exchange.response_complete:
            self._held += len(body)
            self._memory.held += len(body)
            if self._memory.held > most * self._limits.bodies:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests are under way")
        elif self._held:
            self._release()
        super().on_body(body)
        chunks = cast(list[bytes | bytearray], exchange.chunks)
        if len(chunks) > 1:
            # A body that comes byte by byte must not take up an object a byte.
            last = chunks.pop()
            if not isinstance(chunks[0], bytearray):
                chunks[0] = bytearray(chunks[0])
            chunks[0] += last

    def on_message_complete(self) -> None:
        """Answer: the next move is ours."""
        if self._held:
            self._release()
        self._phase, self._deadline = _OURS, inf
        self._moves += 1
        super().on_message_complete()
        if self._phase is _OURS and self.cycle.response_complete:  # it was refused before its end
            self._expect(_IDLE, self._limits.idle)

    def on_response_complete(self) -> None:
        """Go on with a pipelined request, or wait for the next one."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if not self.flow.write_paused:
            self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            if self._phase is _BODY:
                self._deadline = self.loop.time() + self._limits.body
        elif self._phase is _OURS:
            self._expect(_IDLE, self._limits.idle)

    # --- parting ---------------------------------------------------------------------------------

    def _expect(self, phase: _Phase, seconds: float) -> None:
        self._phase = phase
        self._moves += 1
        self._received = self._body = 0
        self._deadline = self.loop.time() + seconds

    def _release(self) -> None:
        self._memory.held -= self._held
        self._held = 0

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Answer a request that will not be heard out, unless its answer has begun, and hang up."""
        cycle: Any = self.cycle
        has_begun = cycle is not None and not cycle.response_complete
        if has_begun and self._phase is not _HEAD:
            has_answer = getattr(cycle, "response_started", False)
            cycle.disconnected = True
            if isinstance(cycle, Exchange):
                cycle.response_complete = True
                cycle.chunks.clear()
            cycle.message_event.set()
        else:
            has_answer = has_begun or self._phase is _BODY
        self._release()
        if not has_answer and not self.transport.is_closing():
            body = f"{problem}\n".encode()
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%s" % (status, status.phrase.encode(), len(body), body)
            )
        self.transport.close()
