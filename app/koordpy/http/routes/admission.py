"""The admission webhooks over HTTP, without a web framework: kube-apiserver calls them for every pod.

A complete POST is answered by a direct endpoint, everything else (other methods, bodies that arrive in ASGI
messages) by a plain ASGI application. Verdicts, also those on malformed bodies, are AdmissionReviews with
HTTP status 200; HTTP errors are for what is not a webhook call at all.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from koordpy.admission.chain import Chain
from koordpy.admission.review import CONTENT_TYPE, MAX_BODY, TOO_LARGE, refuse, review, review_waiting
from koordpy.http.server.asgi import JSON, TEXT, ASGIApp, Header, Receive, Scope, Send, header, send_answer
from koordpy.http.server.direct import Direct, Gone, Reply

_CONTENT_TYPE: Final = CONTENT_TYPE.encode()
_ONLY_POST: Final = b"admission webhooks are called with POST\n"

_DRAINED: Final = 4 * MAX_BODY
"""Bytes of a body that is too large that are still read, so that the client gets the response."""


def webhooks(chains: Mapping[str, Chain]) -> dict[str, Direct]:
    """Return the endpoints of chains by their paths."""
    application = admission_app(chains)
    return {path: Webhook(chain, application) for path, chain in chains.items()}


class Webhook(Direct):
    """The webhook of one path, for POSTs of one content type. As an ASGI application it takes any request."""

    max_body = MAX_BODY

    def __init__(self, chain: Chain, application: ASGIApp, content_type: str = CONTENT_TYPE) -> None:
        self._chain, self._application, self._content_type = chain, application, content_type

    def begin(self, headers: list[Header]) -> Direct:
        """Return the endpoint for the request's content type."""
        for name, value in headers:
            if name == b"content-type":
                if value == _CONTENT_TYPE:
                    return self
                return Webhook(self._chain, self._application, str(value, "latin-1"))
        return Webhook(self._chain, self._application, "")

    def respond(self, method: str, body: bytes, gone: Gone) -> Reply | Coroutine[Any, Any, Reply]:
        """Respond to an AdmissionReview; with a coroutine where a handler waits."""
        if method != "POST":
            return Reply(405, _ONLY_POST, TEXT)
        if self._chain.waits:
            return self._respond_later(body, gone)
        return Reply(200, review(self._chain, body, self._content_type))

    def too_large(self) -> Reply:
        """Refuse a body that is too large."""
        return Reply(200, refuse(self._chain, TOO_LARGE))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI request."""
        await self._application(scope, receive, send)

    async def _respond_later(self, body: bytes, gone: Gone) -> Reply:
        self._chain.in_flight.inc()
        try:
            return Reply(200, await _answer(self._chain, body, self._content_type, gone) or b"")
        finally:
            self._chain.in_flight.dec()


def admission_app(chains: Mapping[str, Chain]) -> ASGIApp:
    """Return the ASGI application that serves the chains by their paths.

    POST takes an AdmissionReview; another method is 405, a path without a chain (also one whose feature gate
    is off) 404. A request whose client disconnects before its body is complete, or while a handler waits, is
    dropped. Where the application is mounted under a prefix, paths are relative to it.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"admission webhooks are served over http, not {scope['type']}")
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        chain = chains.get(path)
        if chain is None:
            await send_answer(send, 404, f"no admission webhook at {path}\n".encode(), TEXT)
            return
        if scope["method"] != "POST":
            await send_answer(send, 405, _ONLY_POST, TEXT, (b"allow", b"POST"))
            return
        chain.in_flight.inc()
        try:
            await _serve(chain, header(scope, b"content-type"), receive, send)
        finally:
            chain.in_flight.dec()

    return application


async def _serve(chain: Chain, content_type: str, receive: Receive, send: Send) -> None:
    body, is_complete = await _read(receive)
    if body is None:
        # The rest of the body is not read: the connection cannot be used again.
        extra = () if is_complete else ((b"connection", b"close"),)
        await send_answer(send, 200, refuse(chain, TOO_LARGE), JSON, *extra)
    elif is_complete and not chain.waits:
        await send_answer(send, 200, review(chain, body, content_type), JSON)
    elif is_complete:
        answer = await _answer(chain, body, content_type, lambda: _disconnected(receive))
        if answer is not None:
            await send_answer(send, 200, answer, JSON)


async def _answer(chain: Chain, body: bytes, content_type: str, gone: Gone) -> bytes | None:
    """Return the response, None if the client disconnects while a handler waits."""
    answering = asyncio.create_task(review_waiting(chain, body, content_type))
    disconnecting = asyncio.ensure_future(gone())
    try:
        await asyncio.wait((answering, disconnecting), return_when=asyncio.FIRST_COMPLETED)
        return await answering if answering.done() else None
    finally:
        disconnecting.cancel()
        answering.cancel()


async def _disconnected(receive: Receive) -> None:
    """Return when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read(receive: Receive) -> tuple[bytes | None, bool]:
    """Return the body (None if it is too large), and whether all of it was received."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body = message.get("body", b"")
        return (body, True) if len(body) <= MAX_BODY else (None, True)
    chunks: list[bytes] = []
    size = 0
    while message["type"] == "http.request":
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= MAX_BODY:
            chunks.append(chunk)
        else:
            chunks.clear()
        if not message.get("more_body", False):
            return (b"".join(chunks), True) if size <= MAX_BODY else (None, True)
        if size > _DRAINED:
            return None, False
        message = await receive()
    return b"", False
