"""Limits on the time and memory of each caller, so that others are always served.

A caller that sends slowly, incompletely, too much or nothing, or does not read its responses, occupies only
its own connection, and only for a bounded time. Deadlines are checked once a second for all connections
together, instead of a timer for each request; they replace uvicorn's keep-alive timers too.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from math import inf
from typing import Any, Final, cast

from koordpy.lib.request_origin import refusal

from .client_certificates import ClientCertificates
from .protocol import Exchange, Protocol

_CLOSE_SECONDS: Final = 1.0
"""How long a caller may take to close the connection after the last byte."""

_FRAMING: Final = 8
"""Bytes of chunk sizes, extensions and trailers that are allowed per byte of body."""


@dataclass(frozen=True)
class Limits:
    """The limits of a listener.

    In seconds: `idle` between requests, `head` from the first byte of a request to the end of its header
    fields, `body` from there to its last byte, `reading` for a response that the caller does not read.
    `head_bytes` limits the header fields. All unfinished bodies together may take as much memory as `bodies`
    of the largest size. Connections beyond `connections` wait in the kernel's queue.
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
    """What a connection waits for: a part of the request, or the response."""

    IDLE = "request"
    HEAD = "header fields"
    BODY = "body"
    RESPONSE = "response"


_IDLE, _HEAD, _BODY, _RESPONSE = _Phase  # short names: they are read for every header field


class LimitedProtocol(Protocol):
    """A connection with limits, which refuses requests of web pages; `hosts` as in `request_origin`.

    With `clients`, requests with another certificate are refused too.
    """

    def __init__(
        self,
        *args: Any,
        limits: Limits,
        memory: BodyMemory,
        hosts: Collection[str] | None = None,
        clients: ClientCertificates | None = None,
        **kw: Any,
    ) -> None:
        super().__init__(*args, **kw)
        self._clients = clients
        self._caller_problem: str | None = None
        self._limits, self._memory, self._hosts = limits, memory, hosts
        self._is_refused = False  # the rest of a request that was refused before its body is not read
        self._phase = _IDLE
        self._deadline = self._reading_deadline = self._close_deadline = inf
        self._changes = 0  # of phase
        self._received = 0  # bytes of the current phase, without those that it began with
        self._body = 0  # bytes of body among them
        self._held = 0  # bytes of body in memory

    def check(self, now: float) -> None:
        """Close the connection if a deadline has passed; `now` is the event loop's time."""
        if self.transport.is_closing():
            if now >= min(self._reading_deadline, self._close_deadline):
                self.transport.abort()
            elif self._close_deadline == inf and not self.transport.get_write_buffer_size():
                self._close_deadline = now + _CLOSE_SECONDS
        elif now >= self._reading_deadline:
            self.transport.abort()
        elif now >= self._deadline:
            self._deadline = inf
            if self._phase is _IDLE:
                self.transport.close()
            else:
                problem = f"the {self._phase.value} did not arrive in time"
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, problem)

    # --- the transport ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        if self._clients is not None:
            self._caller_problem = self._clients.problem(transport.get_extra_info("peercert"))
        self._expect(_IDLE, self._limits.idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the memory that the connection held."""
        self._release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and limit bytes outside bodies."""
        if self.transport.is_closing():
            return
        changes = self._changes
        super().data_received(data)
        if self._changes != changes:
            return  # the share of the new phase is unknown, and does not matter
        if self._phase is _HEAD:
            self._received += len(data)
            if self._received > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the header fields are too large")
        elif self._phase is _BODY:
            self._received += len(data)
            if self._received > 2 * self._limits.head_bytes + _FRAMING * self._body:
                self._refuse(HTTPStatus.BAD_REQUEST, "there is more framing than body")

    def pause_writing(self) -> None:
        """Wait for the caller to read; until then read nothing from it."""
        super().pause_writing()
        self.flow.pause_reading()
        self._reading_deadline = self.loop.time() + self._limits.reading

    def resume_writing(self) -> None:
        """Continue: the caller has read."""
        super().resume_writing()
        self.flow.resume_reading()
        self._reading_deadline = inf

    # --- the parser ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Wait for the header fields."""
        if self._is_refused:
            return
        super().on_message_begin()
        self._expect(_HEAD, self._limits.head)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header field; trailers are dropped."""
        if self._phase is _HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check caller and origin, and wait for the body.

        A pipelined request has no deadline before the application reads it.
        """
        if self._is_refused:
            return
        problem = self._caller_problem or refusal(self.headers, self._hosts)
        if problem is not None:
            self._is_refused = True
            self._refuse(HTTPStatus.FORBIDDEN, problem)
            return
        busy = self.cycle is not None and not self.cycle.response_complete
        self._expect(_BODY, inf if busy else self._limits.body)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of a body if the memory limit allows it."""
        if self._is_refused:
            return
        self._body += len(body)
        exchange: Any = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_body(body)  # uvicorn buffers little: it reads as fast as the application does
            return
        most = exchange.endpoint.max_body
        if self._body <= most and not exchange.response_complete:
            self._held += len(body)
            self._memory.held += len(body)
            if self._memory.held > most * self._limits.bodies:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests in progress")
        elif self._held:
            self._release()
        super().on_body(body)
        chunks = cast(list[bytes | bytearray], exchange.chunks)
        if len(chunks) > 1:
            # A body that arrives byte by byte must not take an object per byte.
            last = chunks.pop()
            if not isinstance(chunks[0], bytearray):
                chunks[0] = bytearray(chunks[0])
            chunks[0] += last

    def on_message_complete(self) -> None:
        """Respond: from now on the caller waits."""
        if self._is_refused:
            return
        if self._held:
            self._release()
        self._phase, self._deadline = _RESPONSE, inf
        self._changes += 1
        super().on_message_complete()
        if self._phase is _RESPONSE and self.cycle.response_complete:  # it was answered before its end
            self._expect(_IDLE, self._limits.idle)

    def on_response_complete(self) -> None:
        """Continue with a pipelined request, or wait for the next one."""
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
        elif self._phase is _RESPONSE:
            self._expect(_IDLE, self._limits.idle)

    # --- deadlines and rejections ----------------------------------------------------------------

    def _expect(self, phase: _Phase, seconds: float) -> None:
        self._phase = phase
        self._changes += 1
        self._received = self._body = 0
        self._deadline = self.loop.time() + seconds

    def _release(self) -> None:
        self._memory.held -= self._held
        self._held = 0

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Respond to a request that is not read to its end, unless a response has started, and close."""
        cycle: Any = self.cycle
        has_begun = cycle is not None and not cycle.response_complete
        if has_begun and self._phase is not _HEAD:
            has_response = getattr(cycle, "response_started", False)
            cycle.disconnected = True
            if isinstance(cycle, Exchange):
                cycle.response_complete = True
                cycle.chunks.clear()
            cycle.message_event.set()
        else:
            has_response = has_begun or self._phase is _BODY
        self._release()
        if not has_response and not self.transport.is_closing():
            body = f"{problem}\n".encode()
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%s" % (status, status.phrase.encode(), len(body), body)
            )
        self.transport.close()
