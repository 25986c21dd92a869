"""The admission webhooks over HTTP, without a web framework: kube-apiserver calls them for every pod.

Verdicts, also those on malformed bodies, are AdmissionReviews with HTTP status 200; HTTP errors are for
requests that are not webhook calls.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from koordpy.admission.chain import Chain
from koordpy.admission.review import CONTENT_TYPE, MAX_BODY, TOO_LARGE, refuse, review, review_waiting
from koordpy.http.server.asgi import TEXT
from koordpy.http.server.direct import Direct, Gone, Headers, Reply

_CONTENT_TYPE: Final = CONTENT_TYPE.encode()
_ONLY_POST: Final = b"admission webhooks are called with POST\n"


def webhooks(chains: Mapping[str, Chain]) -> dict[str, Direct]:
    """Return the endpoints of chains by their paths."""
    return {path: Webhook(chain) for path, chain in chains.items()}


class Webhook(Direct):
    """The webhook of one path."""

    max_body = MAX_BODY

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    def respond(self, headers: Headers, body: bytes, gone: Gone) -> Reply | Coroutine[Any, Any, Reply | None]:
        """Respond to an AdmissionReview; with a coroutine if a handler waits."""
        content_type = _content_type(headers)
        if self._chain.waits:
            return self._respond_later(body, content_type, gone)
        return Reply(200, review(self._chain, body, content_type))

    def not_allowed(self, method: str) -> Reply:
        """Reject another method."""
        return Reply(405, _ONLY_POST, TEXT)

    def too_large(self) -> Reply:
        """Reject a body that is too large."""
        return Reply(200, refuse(self._chain, TOO_LARGE))

    async def _respond_later(self, body: bytes, content_type: str, gone: Gone) -> Reply | None:
        self._chain.in_flight.inc()
        try:
            answer = await _answer(self._chain, body, content_type, gone)
            return None if answer is None else Reply(200, answer)
        finally:
            self._chain.in_flight.dec()


def _content_type(headers: Headers) -> str:
    for name, value in headers:
        if name == b"content-type":
            return CONTENT_TYPE if value == _CONTENT_TYPE else str(value, "latin-1")
    return ""


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
