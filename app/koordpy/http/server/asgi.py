"""The types of ASGI applications, and helpers for those that use no framework."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Final = (b"content-type", b"application/json")
TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


async def send_answer(send: Send, status: int, body: bytes, *headers: Header) -> None:
    """Send a complete response; `content-length` is added to the headers."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def header(scope: Scope, name: bytes) -> str:
    """Return a request's header by its lower-case name, empty if it is absent."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return ""
