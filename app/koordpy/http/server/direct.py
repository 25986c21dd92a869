"""Direct endpoints: from a complete body to a complete response, for paths that are called for every pod.

ASGI passes bodies and responses on in messages, and runs each request as a task. For a function from bytes to
bytes that costs a good part of the function's own time (`docs/performance.md` has figures). So such an
endpoint is written once, as `respond`: `protocol.py` calls it from the HTTP parser, and under any other
server it is a plain ASGI application.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from .asgi import JSON, Header, Receive, Scope, Send, send_answer

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


class Direct(ABC):
    """A direct endpoint."""

    max_body: int
    """Bytes."""

    def begin(self, headers: list[Header]) -> "Direct":
        """Return the endpoint for a request with these header fields; by default this one for all."""
        return self

    @abstractmethod
    def respond(self, method: str, body: bytes, gone: Gone) -> Reply | Coroutine[Any, Any, Reply]:
        """Respond to a request, or return a coroutine that does; `gone` is for those that wait.

        An exception is logged and answered with status 500.
        """

    @abstractmethod
    def too_large(self) -> Reply:
        """Respond to a request whose body is larger than `max_body`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request; it is dropped when the caller disconnects before its body is complete."""
        if scope["type"] != "http":
            raise RuntimeError(f"this endpoint speaks http, not {scope['type']}")
        endpoint = self.begin(scope["headers"])
        chunks: list[bytes] = []
        size, more = 0, True
        while more and size <= self.max_body + DRAINED:
            message = await receive()
            if message["type"] != "http.request":
                return
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self.max_body:
                chunks.clear()
            more = message.get("more_body", False)
        if size > self.max_body:
            reply = endpoint.too_large()
        else:
            answer = endpoint.respond(scope["method"], b"".join(chunks), lambda: _disconnected(receive))
            reply = answer if isinstance(answer, Reply) else await answer
        # The rest of the body is not read: the connection cannot be used again.
        extra = ((b"connection", b"close"),) if more else ()
        await send_answer(send, reply.status, reply.body, reply.content_type, *extra)
        if reply.after is not None:
            reply.after()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
