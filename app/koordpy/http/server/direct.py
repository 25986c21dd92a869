"""Direct endpoints: from a complete body to a complete response, for paths that are called for every pod.

ASGI passes bodies and responses in messages, and runs each request as a task. For a function from bytes to
bytes that overhead is comparable to the function's own time (`docs/performance.md` has figures). So such an
endpoint is written once, as `respond`: `protocol.py` calls it from the HTTP parser, and under any other
server it is a plain ASGI application.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from .asgi import JSON, TEXT, Header, Receive, Scope, Send, send_answer

log = logging.getLogger(__name__)

Headers = Sequence[Header]
"""Header fields of a request, names in lower case."""

Gone = Callable[[], Awaitable[None]]
"""Returns once the caller has closed the connection."""

DRAINED: Final = 16 << 20
"""Bytes of a body beyond `max_body` that are read and dropped, so that the caller gets the response.
Beyond that the connection is closed."""


class Reply(NamedTuple):
    """A response. `after` is called once it has been handed to the network."""

    status: int
    body: bytes
    content_type: Header = JSON
    after: Callable[[], None] | None = None


INTERNAL_ERROR: Final = Reply(500, b"internal error\n", TEXT)
_ALLOW: Final[Header] = (b"allow", b"POST")
_CLOSE: Final[Header] = (b"connection", b"close")


class Direct(ABC):
    """A direct endpoint, for POST requests."""

    max_body: int
    """Bytes."""

    @abstractmethod
    def respond(self, headers: Headers, body: bytes, gone: Gone) -> Reply | Coroutine[Any, Any, Reply | None]:
        """Respond to a POST, or return a coroutine that does, with None if the caller has disconnected.

        `gone` is for those that wait. An exception is logged and answered with status 500.
        """

    @abstractmethod
    def not_allowed(self, method: str) -> Reply:
        """Respond to a request with another method than POST."""

    @abstractmethod
    def too_large(self) -> Reply:
        """Respond to a request whose body is larger than `max_body`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request; it is dropped when the caller disconnects before its body is complete."""
        if scope["type"] != "http":
            raise RuntimeError(f"this endpoint is served over http, not {scope['type']}")
        if scope["method"] != "POST":
            await _send(send, self.not_allowed(scope["method"]), _ALLOW)
            return
        body = bytearray()
        size, more = 0, True
        while more and size <= self.max_body + DRAINED:
            message = await receive()
            if message["type"] != "http.request":
                return
            chunk = message.get("body", b"")
            size += len(chunk)
            if size <= self.max_body:
                body += chunk
            else:
                body.clear()
            more = message.get("more_body", False)
        # The rest of a body is not read: the connection cannot be used again.
        extra = (_CLOSE,) if more else ()
        if size > self.max_body:
            await _send(send, self.too_large(), *extra)
            return
        reply = await self._respond(scope["headers"], bytes(body), lambda: _disconnected(receive))
        if reply is not None:
            await _send(send, reply)

    async def _respond(self, headers: Headers, body: bytes, gone: Gone) -> Reply | None:
        try:
            reply = self.respond(headers, body, gone)
            return reply if isinstance(reply, Reply) else await reply
        except Exception:
            log.exception("a request failed")
            return INTERNAL_ERROR


async def _send(send: Send, reply: Reply, *headers: Header) -> None:
    await send_answer(send, reply.status, reply.body, reply.content_type, *headers)
    if reply.after is not None:
        asyncio.get_running_loop().call_soon(reply.after)  # the event loop writes the response first


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
