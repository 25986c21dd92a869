"""The extender door: POST /extender/filter, /prioritize, /preempt and /bind, as a plain ASGI application.

These are the hot paths: kube-scheduler's loop stands still while it waits for filter and prioritize. So no
framework is in between, bodies go to the engine as bytes, and scores are worked out right after the filter
answer has left, while kube-scheduler is busy with its own plugins.
"""

import asyncio
import logging
import time

import msgspec

from koordpy.scheduling.attempts import Attempt
from koordpy.scheduling.extender import Extender
from koordpy.scheduling.metrics import EXTENDER_DURATION
from koordpy.scheduling.wire import BadBody

from .asgi import JSON, Receive, Scope, Send, send_answer

log = logging.getLogger(__name__)

MAX_BODY = 256 << 20
"""Bytes. Full Node objects of some thousand nodes are tens of megabytes; names alone are small."""


class _HungUp(Exception):
    """The caller went away before its request was complete."""


class _TooLarge(Exception):
    """The body is larger than allowed."""


class ExtenderApp:
    """Mount it where kube-scheduler's `urlPrefix` points; the verb is the last segment of the path."""

    def __init__(self, extender: Extender, *, max_body: int = MAX_BODY) -> None:
        self.extender = extender
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        verb = scope["path"].rsplit("/", 1)[-1]
        if verb not in ("filter", "prioritize", "preempt", "bind"):
            await _answer(send, 404, _error(f"no extender verb {verb!r}"))
            return
        if scope["method"] != "POST":
            await _answer(send, 405, _error(f"{scope['method']} is not allowed, expected POST"))
            return
        began = time.perf_counter()
        result = "error"
        try:
            body = await self._body(scope, receive)
            await self._serve(verb, body, receive, send)
            result = "ok"
        except _HungUp:
            result = "hung-up"
        except _TooLarge:
            result = "bad-request"
            await _answer(send, 413, _error(f"body is larger than {self._max_body} bytes"))
        except BadBody as error:
            result = "bad-request"
            await _answer(send, 400, _error(f"{verb}: {error}"))
        finally:
            EXTENDER_DURATION.labels(verb, result).observe(time.perf_counter() - began)

    async def _serve(self, verb: str, body: bytes, receive: Receive, send: Send) -> None:
        extender = self.extender
        try:
            if verb == "bind":
                answer = await extender.bind(body, lambda: _gone(receive))
            elif verb == "filter":
                answer, attempt = extender.filter(body)
                await _answer(send, 200, answer)
                if attempt is not None:
                    await self._score_ahead(attempt)
                return
            else:
                answer = extender.prioritize(body) if verb == "prioritize" else extender.preempt(body)
        except BadBody:
            raise
        except Exception as error:
            log.exception("extender call %s broke", verb)
            await _answer(send, 500, _error(f"{verb}: {type(error).__name__}"))
            return
        await _answer(send, 200, answer)

    async def _score_ahead(self, attempt: Attempt) -> None:
        await asyncio.sleep(0)  # lets the loop write the answer out first
        try:
            self.extender.score_ahead(attempt)
        except Exception:
            log.exception("scoring pod %s ahead broke", attempt.pod.metadata.key)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._max_body:
                raise _TooLarge
        message = await receive()
        body: bytes = message.get("body", b"")
        if message["type"] == "http.request" and not message.get("more_body"):
            if len(body) > self._max_body:
                raise _TooLarge
            return body
        chunks, size = [body], len(body)
        while message["type"] == "http.request" and message.get("more_body"):
            message = await receive()
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self._max_body:
                raise _TooLarge
        if message["type"] != "http.request":
            raise _HungUp
        return b"".join(chunks)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, status: int, body: bytes) -> None:
    await send_answer(send, status, body, JSON)


def _error(message: str) -> bytes:
    return msgspec.json.encode({"Error": message})
