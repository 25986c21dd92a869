"""uvicorn's HTTP protocol, with two short cuts.

Requests for direct endpoints (`direct.py`) are answered from the parser's callbacks, without a
task and without ASGI's messages. Everything else is uvicorn's, except that head and body of an answer leave
in one write: uvicorn writes them one after the other, which is two system calls, two TCP segments (two TLS
records), and a client that is woken for a head without a body. Where client and server share cores, as
kube-scheduler and its extender do, that costs a context switch in the middle of an answer.
"""

import asyncio
import logging
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .asgi import TEXT
from .direct import DRAINED, Direct, Reply

log = logging.getLogger(__name__)

_GOODBYE_SECONDS = 1.0
"""asyncio would wait half a minute for a close_notify."""

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_INTERNAL_ERROR = Reply(500, b"internal error\n", TEXT)


class JoiningTransport:
    """A transport that holds a write back for the next one, at most until the event loop's next turn."""

    __slots__ = ("_held", "_loop", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write `data` together with what was held back, or hold it back."""
        if self._held:
            data, self._held = self._held + data, b""
            self._transport.write(data)
        elif data:
            self._held = data
            self._loop.call_soon(self._flush)

    def write_whole(self, data: bytes) -> None:
        """Write a whole answer: nothing that belongs to it will follow."""
        self._flush()
        self._transport.write(data)

    def close(self) -> None:
        """Close when everything is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Exchange:
    """A request for a direct endpoint, and its answer. uvicorn sees it as the connection's current cycle."""

    __slots__ = (
        "_gone",
        "chunks",
        "disconnected",
        "endpoint",
        "keep_alive",
        "method",
        "response_complete",
        "size",
    )

    def __init__(self, endpoint: Direct, method: str, keep_alive: bool) -> None:
        self.endpoint, self.method, self.keep_alive = endpoint, method, keep_alive
        self.chunks: list[bytes] = []
        self.size = 0
        self.disconnected = self.response_complete = False
        self._gone: asyncio.Event | None = None

    @property
    def message_event(self) -> "Exchange":
        """What uvicorn sets when the connection is lost."""
        return self

    def set(self) -> None:
        """Tell whoever waits for it that the caller has hung up."""
        if self._gone is not None:
            self._gone.set()

    async def gone(self) -> None:
        """Return when the caller has hung up."""
        if self._gone is None:
            self._gone = asyncio.Event()
        if not self.disconnected:
            await self._gone.wait()


class Protocol(HttpToolsProtocol):
    """What the listeners speak. `direct_endpoint(path)` of the application names the direct ones, if any."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self._direct_endpoint = getattr(self.app, "direct_endpoint", None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the joining transport between uvicorn and the network."""
        super().connection_made(cast(asyncio.Transport, JoiningTransport(transport, self.loop)))

    def shutdown(self) -> None:
        """Close when idle, else after the answer. An idle TLS peer that does not say goodbye is cut off."""
        super().shutdown()
        if self.transport.is_closing():
            self.loop.call_later(_GOODBYE_SECONDS, self.transport.abort)

    # --- direct endpoints ------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        """Begin an exchange. Pipelined requests and those that `expect` a go-ahead are left to uvicorn."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if self._direct_endpoint is not None and not (busy or self.expect_100_continue):
            endpoint = self._direct_endpoint(self.url.decode("latin-1"))
            if endpoint is not None:
                keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
                method = self.parser.get_method().decode("ascii")
                exchange = Exchange(endpoint, method, keep_alive)
                self.cycle = cast(Any, exchange)
                self._refuse_beyond_limit(exchange, self._announced())
                return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect a body, or what uvicorn does with it."""
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
        """Answer a request that is complete."""
        exchange: Any = self.cycle
        if not isinstance(exchange, Exchange):
            super().on_message_complete()
        elif not exchange.response_complete:
            self._respond(exchange)

    def _announced(self) -> int:
        for name, value in self.headers:
            if name == b"content-length":
                return int(value)  # the parser has checked that it is a number
        return 0

    def _refuse_beyond_limit(self, exchange: Exchange, size: int) -> None:
        """Answer and hang up when a body is too large to be waited for."""
        if size > exchange.endpoint.max_body + DRAINED and not exchange.response_complete:
            exchange.keep_alive = False
            self._answer(exchange, exchange.endpoint.too_large())

    def _respond(self, exchange: Exchange) -> None:
        endpoint = exchange.endpoint
        if exchange.size > endpoint.max_body:
            self._answer(exchange, endpoint.too_large())
            return
        try:
            reply = endpoint.respond(exchange.method, b"".join(exchange.chunks), exchange.gone)
        except Exception:
            log.exception("%s %s broke", exchange.method, self.url.decode("latin-1"))
            reply = _INTERNAL_ERROR
        exchange.chunks.clear()
        if isinstance(reply, Reply):
            self._answer(exchange, reply)
        else:
            task = self.loop.create_task(self._answer_later(exchange, reply))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    async def _answer_later(self, exchange: Exchange, answer: Coroutine[Any, Any, Reply]) -> None:
        try:
            reply = await answer
        except Exception:
            log.exception("a request broke")
            reply = _INTERNAL_ERROR
        self._answer(exchange, reply)

    def _answer(self, exchange: Exchange, reply: Reply) -> None:
        exchange.response_complete = True
        if not exchange.disconnected:
            name, value = reply.content_type
            transport = cast(JoiningTransport, self.transport)
            transport.write_whole(
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
                transport.close()
            self.on_response_complete()
        if reply.after is not None:
            self.loop.call_soon(reply.after)  # the loop writes the answer out first
