"""uvicorn's HTTP protocol, with a shortcut for direct endpoints.

Requests for direct endpoints (`direct.py`) are answered in the parser's callbacks, without a task and without
ASGI messages, and head and body of their responses are sent in one write. uvicorn sends them in two, which
means two system calls, two TCP segments (two TLS records), and a client that wakes up for a head without a
body. If client and server share cores, as kube-scheduler and its extender may, that costs a context switch in
the middle of a response. Everything else is left to uvicorn.
"""

import asyncio
import logging
import sys
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .direct import DRAINED, INTERNAL_ERROR, Direct, Headers, Reply

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 1.0
"""How long a peer may take for its close_notify; asyncio would wait half a minute."""

_PIECE = 2048
"""Bytes that are parsed at once, so that few requests are answered before others get their turn."""

_TURN_SECONDS = 0.01
"""How long requests that arrived together on one connection are answered before others get their turn."""

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class Exchange:
    """A request to a direct endpoint and its response; `self.cycle` of the connection to uvicorn's code."""

    __slots__ = (
        "_gone",
        "chunks",
        "disconnected",
        "endpoint",
        "headers",
        "keep_alive",
        "length",
        "response_complete",
        "size",
    )

    def __init__(self, endpoint: Direct, headers: Headers, keep_alive: bool, length: int) -> None:
        self.endpoint, self.headers, self.keep_alive = endpoint, headers, keep_alive
        self.length = length
        self.chunks: list[bytes] = []
        self.size = 0
        self.disconnected = self.response_complete = False
        self._gone: asyncio.Event | None = None

    @property
    def message_event(self) -> "Exchange":
        """The event that uvicorn sets when the connection is lost."""
        return self

    def set(self) -> None:
        """Wake the tasks that wait for `gone`."""
        if self._gone is not None:
            self._gone.set()

    async def gone(self) -> None:
        """Return once the caller has closed the connection."""
        if self._gone is None:
            self._gone = asyncio.Event()
        if not self.disconnected:
            await self._gone.wait()


class Protocol(HttpToolsProtocol):
    """The protocol of a connection; the application's `direct_endpoint(path)` finds direct endpoints."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._direct_endpoint = getattr(self.app, "direct_endpoint", None)
        self._answered = 0
        self._unread = b""  # received, to be parsed in a later turn

    def data_received(self, data: bytes) -> None:
        """Parse requests, and answer those for direct endpoints; leave some for later if they are many."""
        data, self._unread = self._unread + data, b""
        answered, began = self._answered, self.loop.time()
        position = 0
        while position < len(data) and not self.transport.is_closing():
            if self._answered > answered and (
                self.flow.write_paused or self.loop.time() - began > _TURN_SECONDS
            ):
                self._unread = data[position:]
                self.flow.pause_reading()
                self.loop.call_soon(self._continue)
                return
            size = self._piece()
            super().data_received(data[position : position + size])
            position += size

    def _continue(self) -> None:
        """Parse what was left for later."""
        if self._unread and not self.flow.write_paused and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(b"")

    def resume_writing(self) -> None:
        """Continue: the caller has read answers."""
        super().resume_writing()
        self.loop.call_soon(self._continue)

    def _piece(self) -> int:
        """Return how many of the next bytes can be parsed without more than a few answers."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            return _PIECE
        return max(cycle.length - cycle.size, _PIECE) if isinstance(cycle, Exchange) else sys.maxsize

    def shutdown(self) -> None:
        """Close when idle, else after the response. A TLS peer that sends no close_notify is aborted."""
        super().shutdown()
        if self.transport.is_closing():
            self.loop.call_later(_CLOSE_SECONDS, self.transport.abort)

    # --- direct endpoints ------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        """Begin an exchange. Pipelined requests and those with `Expect: 100-continue` are left to uvicorn."""
        busy = self.cycle is not None and not self.cycle.response_complete
        endpoint = None if busy or self.expect_100_continue else self._find_direct()
        if endpoint is None:
            super().on_headers_complete()
            return
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        exchange = Exchange(endpoint, self.headers, keep_alive, self._content_length())
        self.cycle = cast(Any, exchange)
        self._refuse_beyond_limit(exchange, exchange.length)

    def _find_direct(self) -> Direct | None:
        """Return the endpoint of a POST; the query is ignored: kube-apiserver sends `?timeout=10s`."""
        if self._direct_endpoint is None or self.parser.get_method() != b"POST":
            return None
        endpoint: Direct | None = self._direct_endpoint(self.url.decode("latin-1").partition("?")[0])
        return endpoint

    def on_body(self, body: bytes) -> None:
        """Collect the body of an exchange."""
        exchange: Any = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_body(body)
            return
        exchange.size += len(body)
        if exchange.size <= exchange.endpoint.max_body:
            exchange.chunks.append(body)
            return
        exchange.chunks.clear()
        self._refuse_beyond_limit(exchange, exchange.size)

    def on_message_complete(self) -> None:
        """Respond to a complete request."""
        exchange: Any = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_message_complete()
        elif not exchange.response_complete:
            self._respond(exchange)

    def _content_length(self) -> int:
        for name, value in self.headers:
            if name == b"content-length":
                return int(value)  # the parser has checked that it is a number
        return 0

    def _refuse_beyond_limit(self, exchange: Exchange, size: int) -> None:
        """Respond and close if the body is too large to be read to its end."""
        if size > exchange.endpoint.max_body + DRAINED and not exchange.response_complete:
            exchange.keep_alive = False
            self._send(exchange, exchange.endpoint.too_large())

    def _respond(self, exchange: Exchange) -> None:
        endpoint = exchange.endpoint
        if exchange.size > endpoint.max_body:
            self._send(exchange, endpoint.too_large())
            return
        try:
            reply = endpoint.respond(exchange.headers, b"".join(exchange.chunks), exchange.gone)
        except Exception:
            log.exception("POST %s failed", self.url.decode("latin-1"))
            reply = INTERNAL_ERROR
        exchange.chunks.clear()
        if isinstance(reply, Reply):
            self._send(exchange, reply)
        else:
            task = self.loop.create_task(self._send_later(exchange, reply))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    async def _send_later(self, exchange: Exchange, response: Coroutine[Any, Any, Reply | None]) -> None:
        try:
            reply = await response
        except Exception:
            log.exception("a request failed")
            reply = INTERNAL_ERROR
        if reply is None:
            exchange.response_complete = True  # the caller has disconnected
        else:
            self._send(exchange, reply)

    def _send(self, exchange: Exchange, reply: Reply) -> None:
        exchange.response_complete = True
        self._answered += 1
        if not exchange.disconnected:
            name, value = reply.content_type
            self.transport.write(
                b"%s%s: %s\r\ncontent-length: %d\r\n%s\r\n%s"
                % (
                    _STATUS_LINES[reply.status],
                    name,
                    value,
                    len(reply.body),
                    b"" if exchange.keep_alive else b"connection: close\r\n",
                    reply.body,
                )
            )
            if not exchange.keep_alive:
                self.transport.close()
            self.on_response_complete()
        if reply.after is not None:
            self.loop.call_soon(reply.after)  # the event loop writes the response first
