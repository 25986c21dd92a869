"""Limits on the time and memory of each caller, so that others are always served.

A caller that sends slowly, incompletely, too much or nothing, or does not read its responses, occupies only
its own connection, and only for a bounded time. Deadlines are checked once a second for all connections
together, instead of a timer for each request; they replace uvicorn's keep-alive timers too.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from math import inf
from typing import Any, Final, cast

from koordpy.lib.request_origin import refusal

from .client_certificates import ClientCertificates
from .memory import Memory
from .protocol import Exchange
from .sequential import Phase, SequentialProtocol

_CLOSE_SECONDS: Final = 1.0
"""How long a caller may take to close the connection after the last byte."""

_FRAMING: Final = 8
"""Bytes of chunk sizes, extensions and trailers that are allowed per byte of body."""


_PIECE: Final = 64 * 1024
"""Bytes up to which small parts of a body are joined."""

_DECODED: Final = 8
"""The memory of a request that an endpoint has decoded and waits with, as a multiple of its body."""

_UNREAD: Final = 64 * 1024
"""Bytes of responses that the caller has not read, beyond which no further request is answered."""

_IDLE, _HEAD, _BODY, _RESPONSE = Phase


@dataclass(frozen=True)
class Limits:
    """The limits of a connection, and of the connections of a listener.

    In seconds: `idle` between requests, `head` from the first byte of a request to the end of its header
    fields, `body` from there to its last byte, `reading` for a response that the caller does not read.
    `head_bytes` and `fields` limit the header fields, `body_bytes` bodies except those of direct endpoints,
    which have limits of their own. Beyond `connections` the oldest ones that wait for their caller are
    closed, or further ones wait in the kernel's queue; `tls_connections` is for listeners that speak TLS with
    everyone, because such a connection takes up to 200 KiB.
    """

    idle: float = 75.0
    head: float = 10.0
    body: float = 30.0
    reading: float = 30.0
    head_bytes: int = 64 * 1024
    fields: int = 200
    body_bytes: int = 2 << 20
    connections: int = 2048
    tls_connections: int = 1024


class LimitedProtocol(SequentialProtocol):
    """A connection with limits, which refuses requests of web pages; `hosts` as in `request_origin`.

    With `clients`, requests with another certificate are refused too.
    """

    def __init__(
        self,
        *args: Any,
        limits: Limits,
        memory: Memory,
        hosts: Collection[str] | None = None,
        clients: ClientCertificates | None = None,
        **kw: Any,
    ) -> None:
        super().__init__(*args, **kw)
        self._clients = clients
        self._caller_problem: str | None = None
        self._limits, self._memory, self._hosts = limits, memory, hosts
        self._opened = self._since = self.loop.time()  # of the connection, of its phase
        self._has_asked = False  # whether a request was complete
        self._deadline = self._reading_deadline = self._close_deadline = inf
        self._changes = 0  # of phase
        self._framing = 0  # bytes of the current phase that are no body
        self._quiet = 0  # bytes since the last part of a body
        self._kept = 0  # bytes of the request's body in memory
        self.held = 0

    @property
    def waiting_since(self) -> float:
        """The event loop's time since which the connection has waited for its caller, else infinite."""
        if self._reading_deadline < inf:
            return self._reading_deadline - self._limits.reading
        return inf if self._phase is _RESPONSE else self._since

    @property
    def precedence(self) -> tuple[int, float]:
        """The order in which connections are closed for others; those that are being answered are last.

        First come those that never sent a complete request, then idle ones, the oldest first.
        """
        if self.transport.is_closing():
            return -1, self._opened  # its caller does not read, or does not close
        if not self._has_asked:
            return 0, self._opened
        return (1 if self._phase is _IDLE else 2), self.waiting_since

    def give_up(self, problem: str) -> None:
        """Close the connection, with the reason if the caller can still get a response."""
        if self._reading_deadline < inf:
            self.transport.abort()
            self._is_deaf = True
            self._drop_rest()
            self._kept = 0
            self._reading_deadline = inf
            self._hold(0)
        elif self._phase is _IDLE:
            self._is_deaf = True
            self._drop_rest()
            self._hold(0)
            self.transport.close()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, problem)

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
        transport.set_write_buffer_limits(_UNREAD)
        self._memory.holders.add(self)
        if self._clients is not None:
            self._caller_problem = self._clients.problem(transport.get_extra_info("peercert"))
        self._enter(_IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the memory that the connection held, except of a request that is still worked on."""
        exchange: Any = self.cycle
        if self._phase is _RESPONSE and isinstance(exchange, Exchange) and self._kept:
            kept = self._kept
            self._memory.charge(kept)
            exchange.on_end = partial(self._memory.charge, -kept)
        self._kept = 0
        self._reading_deadline = inf
        super().connection_lost(exc)
        self._hold(0)
        self._memory.holders.discard(self)

    def pause_writing(self) -> None:
        """Wait for the caller to read; until then read nothing from it."""
        super().pause_writing()
        self.flow.pause_reading()
        self._reading_deadline = self.loop.time() + self._limits.reading
        self._received()

    def resume_writing(self) -> None:
        """Continue: the caller has read."""
        super().resume_writing()
        self.flow.resume_reading()
        self._reading_deadline = inf
        self._received()

    # --- the parser ------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header field, up to a number."""
        super().on_header(name, value)
        if len(self.headers) > self._limits.fields and not self._is_deaf:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "there are too many header fields")

    def on_headers_complete(self) -> None:
        """Check caller and origin, and wait for the body."""
        if self._is_deaf:
            return
        problem = self._caller_problem or refusal(self.headers, self._hosts)
        if problem is not None:
            self._refuse(HTTPStatus.FORBIDDEN, problem)
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a part of a body."""
        if self._is_deaf:
            return
        super().on_body(body)
        self._quiet = 0
        exchange: Any = self.cycle
        if exchange.response_complete:
            self._kept = 0  # it is read and dropped
        elif not isinstance(exchange, Exchange):
            self._kept += len(body)
            if self._kept > self._limits.body_bytes:
                self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large")
        elif exchange.size > exchange.endpoint.max_body:
            self._kept = 0
        else:
            self._kept += len(body)
            chunks = cast(list[bytes | bytearray], exchange.chunks)
            if len(chunks) > 1 and len(chunks[-2]) < _PIECE:
                # A body that arrives byte by byte must not take an object per byte.
                last = chunks.pop()
                if not isinstance(chunks[-1], bytearray):
                    chunks[-1] = bytearray(chunks[-1])
                chunks[-1] += last

    def on_message_complete(self) -> None:
        """Respond, unless too much is held by requests that are worked on."""
        if self._is_deaf:
            return
        self._has_asked = True
        if self._kept > _PIECE and self._memory.is_exhausted:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many large requests in progress")
            return
        super().on_message_complete()
        if self._phase is _RESPONSE and self._kept and isinstance(self.cycle, Exchange):
            self._kept *= _DECODED

    # --- deadlines, memory and rejections ---------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        super()._enter(phase)
        limits = self._limits
        self._changes += 1
        self._framing = self._quiet = 0
        self._since = now = self.loop.time()
        if phase is _IDLE:
            self._kept = 0
            self._deadline = now + limits.idle
        elif phase is _RESPONSE:
            self._deadline = inf
        else:
            self._deadline = now + (limits.head if phase is _HEAD else limits.body)

    def _parsed(self, size: int) -> None:
        if self._phase is _HEAD:
            self._framing += size
            if self._framing > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the header fields are too large")
        elif self._phase is _BODY:
            self._framing += size
            self._quiet += size
            most = 2 * self._limits.head_bytes + _FRAMING * self._body
            if self._framing > most or self._quiet > self._limits.head_bytes + size:
                self._refuse(HTTPStatus.BAD_REQUEST, "there is more framing than body")

    def _received(self) -> None:
        if self._phase is _IDLE and not (self.held or self.flow.has_rest or self.flow.write_paused):
            return
        held = self._kept + len(self._rest)
        if self._phase is _HEAD:
            held += self._framing
        if self._reading_deadline < inf:
            held += self.transport.get_write_buffer_size()
        self._hold(held)

    def _hold(self, size: int) -> None:
        change, self.held = size - self.held, size
        if change:
            self._memory.charge(change)

    def _refuse(self, status: HTTPStatus, problem: str) -> None:
        """Respond to a request that is not read to its end, unless a response has started, and close."""
        cycle: Any = self.cycle
        has_response = False
        if self._phase in (_BODY, _RESPONSE) and cycle is not None:
            has_response = cycle.response_complete or getattr(cycle, "response_started", False)
            if not cycle.response_complete:
                cycle.disconnected = True
                if isinstance(cycle, Exchange):
                    cycle.response_complete = True
                    cycle.chunks.clear()
                else:
                    cycle.body = bytearray()
                cycle.message_event.set()
        self._is_deaf = True
        self._kept = 0
        self._drop_rest()
        self._hold(0)
        if not has_response and not self.transport.is_closing():
            body = f"{problem}\n".encode()
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%s" % (status, status.phrase.encode(), len(body), body)
            )
        self.transport.close()
