"""Endpoints that take a whole body and give a whole answer: the paths that a cluster calls for every pod.

ASGI hands bodies and answers over in messages, each request in a task of its own. Where all that is needed
is a function from bytes to bytes, that machinery costs more than the function. So such an endpoint is
written once, as `respond`, and carried in two ways: `protocol.py` calls it straight from the HTTP parser,
and under any other server it is a plain ASGI application.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from .asgi import JSON, Header, Receive, Scope, Send, send_answer

Gone = Callable[[], Awaitable[None]]
"""Returns when the caller has hung up."""


DRAINED: Final = 16 << 20
"""Bytes of a body beyond its limit that are read and dropped, so that the caller sees the answer.
Where there is more, the connection is closed."""


class Reply(NamedTuple):
    """An answer, and what is to be done once it is on its way."""

    status: int
    body: bytes
    content_type: Header = JSON
    after: Callable[[], None] | None = None


class Direct(ABC):
    """One endpoint."""

    max_body: int
    """Bytes."""

    def begin(self, headers: list[Header]) -> "Direct":
        """Return who answers a request with these header fields: this endpoint, unless they matter to it."""
        return self

    @abstractmethod
    def respond(self, method: str, body: bytes, gone: Gone) -> Reply | Coroutine[Any, Any, Reply]:
        """Answer a request; a coroutine where the answer takes time. Whatever it raises is answered 500."""

    @abstractmethod
    def too_large(self) -> Reply:
        """Answer a request whose body is larger than `max_body`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request as ASGI has it; one whose caller goes away in the middle of it is dropped."""
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
        # What is left of a body is not waited for: the connection cannot be used again.
        extra = ((b"connection", b"close"),) if more else ()
        await send_answer(send, reply.status, reply.body, reply.content_type, *extra)
        if reply.after is not None:
            reply.after()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
