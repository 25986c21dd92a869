"""uvicorn's HTTP protocol, with a shortcut for direct endpoints.

Requests for direct endpoints (`direct.py`) are answered in the parser's callbacks, without a task and without
ASGI messages, and head and body of their responses are sent in one write. uvicorn sends them in two, which
means two system calls, two TCP segments (two TLS records), and a client that wakes up for a head without a
body. If client and server share cores, as kube-scheduler and its extender may, that costs a context switch in
the middle of a response. Everything else is left to uvicorn.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .direct import DRAINED, INTERNAL_ERROR, Direct, Headers, Reply

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 1.0
"""How long a peer may take for its close_notify; asyncio would wait half a minute."""

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
        "on_end",
        "response_complete",
        "size",
    )

    def __init__(self, endpoint: Direct, headers: Headers, keep_alive: bool) -> None:
        self.endpoint, self.headers, self.keep_alive = endpoint, headers, keep_alive
        self.chunks: list[bytes] = []
        self.size = 0
        self.disconnected = self.response_complete = False
        self.on_end: Callable[[], None] | None = None  # called once the endpoint is done, if it waits
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
        self._body_length: int | None = 0  # of the current request; None if it is chunked

    def shutdown(self) -> None:
        """Close when idle, else after the response. A TLS peer that sends no close_notify is aborted."""
        super().shutdown()
        if self.transport.is_closing():
            self.loop.call_later(_CLOSE_SECONDS, self.transport.abort)

    # --- direct endpoints ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request. What uvicorn prepares for it waits until it is known to be for uvicorn."""
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """Begin an exchange, or leave the request to uvicorn."""
        self._body_length = self._content_length()
        endpoint = self._find_direct()
        if endpoint is None:
            self._begin_asgi()
            super().on_headers_complete()
            return
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        exchange = Exchange(endpoint, self.headers, keep_alive)
        self.cycle = cast(Any, exchange)
        self._refuse_beyond_limit(exchange, self._body_length or 0)
        if self.expect_100_continue and not exchange.response_complete:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _begin_asgi(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()  # it creates the ASGI scope, with a list of headers of its own
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)

    def _find_direct(self) -> Direct | None:
        """Return the endpoint of a POST; the query is ignored: kube-apiserver sends `?timeout=10s`."""
        if self._direct_endpoint is None or self.parser.get_method() != b"POST":
            return None
        path = self.url.decode("latin-1").partition("?")[0]
        endpoint: Direct | None = self._direct_endpoint(path)
        if endpoint is None and (path[:1] != "/" or "%" in path):  # as uvicorn normalizes it
            raw = httptools.parse_url(self.url).path or b""
            endpoint = self._direct_endpoint(unquote(raw.decode("latin-1")))
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

    def _content_length(self) -> int | None:
        for name, value in self.headers:
            if name == b"content-length":
                return int(value)  # the parser has checked that it is a number
            if name == b"transfer-encoding":
                return None
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
        finally:
            if exchange.on_end is not None:
                exchange.on_end()
        if reply is None:
            exchange.response_complete = True  # the caller has disconnected
        else:
            self._send(exchange, reply)

    def _send(self, exchange: Exchange, reply: Reply) -> None:
        exchange.response_complete = True
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
