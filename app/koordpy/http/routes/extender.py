"""The scheduler extender: POST /extender/filter, /prioritize, /preempt and /bind.

These are hot paths: kube-scheduler's scheduling cycle waits for filter and prioritize. So they use no web
framework, bodies are passed on as bytes, and scores are computed, or the only node is reserved, right after
the response of filter has been sent, while kube-scheduler runs its own plugins.
"""

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from koordpy.http.server.direct import Direct, Gone, Headers, Reply
from koordpy.scheduling.extender.attempts import Attempt
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.extender.wire import BadBody
from koordpy.scheduling.framework.metrics import EXTENDER_DURATION, histogram

log = logging.getLogger(__name__)

MAX_BODY = 64 << 20
"""Bytes. Full Node objects of some thousand nodes are tens of megabytes; names alone are small."""

_SHOWN: Final = 100
"""Bytes of a header field that a message repeats."""

Answer = Callable[[bytes, Gone], Reply | Coroutine[Any, Any, Reply]]


def endpoints(extender: Extender, *, max_body: int = MAX_BODY) -> Mapping[str, Direct]:
    """Return the verbs by their paths; kube-scheduler's `urlPrefix` ends in `/extender`."""

    def filter_(body: bytes, _: Gone) -> Reply | Coroutine[Any, Any, Reply]:
        return filtered(body) if extender.is_prepared else prepared(body)

    async def prepared(body: bytes) -> Reply:
        await extender.prepare()
        return filtered(body)

    def filtered(body: bytes) -> Reply:
        answer, attempt = extender.filter(body)
        if attempt is None:
            return Reply(200, answer)
        return Reply(200, answer, after=lambda: _work_ahead(extender, attempt))

    async def bind(body: bytes, gone: Gone) -> Reply:
        return Reply(200, await extender.bind(body, gone))

    verbs: Mapping[str, Answer] = {
        "filter": filter_,
        "prioritize": lambda body, _: Reply(200, extender.prioritize(body)),
        "preempt": lambda body, _: Reply(200, extender.preempt(body)),
        "bind": bind,
    }
    return {f"/extender/{verb}": _Verb(verb, answer, max_body) for verb, answer in verbs.items()}


class _Verb(Direct):
    """One verb: rejects requests that are not calls of it, and records metrics."""

    def __init__(self, verb: str, answer: Answer, max_body: int) -> None:
        self._verb, self._answer, self.max_body = verb, answer, max_body
        self._duration = {
            result: histogram(EXTENDER_DURATION, verb, result) for result in ("ok", "bad-request", "error")
        }

    def respond(self, headers: Headers, body: bytes, gone: Gone) -> Reply | Coroutine[Any, Any, Reply]:
        began = time.perf_counter()
        content_type = _content_type(headers)
        if content_type != b"application/json":
            self._duration["bad-request"].observe(0)
            shown = ascii(content_type[:_SHOWN].decode("latin-1"))
            return Reply(415, _error(f"{self._verb}: Content-Type is {shown}, expected application/json"))
        try:
            reply = self._answer(body, gone)
        except Exception as error:
            return self._failed(error, began)
        if not isinstance(reply, Reply):
            return self._later(reply, began)
        self._duration["ok"].observe(time.perf_counter() - began)
        return reply

    def not_allowed(self, method: str) -> Reply:
        return Reply(405, _error(f"{method} is not allowed, expected POST"))

    def too_large(self) -> Reply:
        self._duration["bad-request"].observe(0)
        return Reply(413, _error(f"{self._verb}: body is larger than {self.max_body} bytes"))

    async def _later(self, reply: Coroutine[Any, Any, Reply], began: float) -> Reply:
        try:
            answer = await reply
        except Exception as error:
            return self._failed(error, began)
        self._duration["ok"].observe(time.perf_counter() - began)
        return answer

    def _failed(self, error: Exception, began: float) -> Reply:
        took = time.perf_counter() - began
        if isinstance(error, BadBody):
            self._duration["bad-request"].observe(took)
            return Reply(400, _error(f"{self._verb}: {error}"))
        log.error("extender call %s failed", self._verb, exc_info=error)
        self._duration["error"].observe(took)
        return Reply(500, _error(f"{self._verb}: {type(error).__name__}"))


def _content_type(headers: Headers) -> bytes:
    """Return the media type of the body, without parameters and in lower case; empty if not given.

    A web page may send other types to any host without asking the host first.
    """
    for name, value in headers:
        if name == b"content-type":
            return value.partition(b";")[0].strip().lower()
    return b""


def _work_ahead(extender: Extender, attempt: Attempt) -> None:
    try:
        extender.work_ahead(attempt)
    except Exception:
        log.exception("scoring or reserving ahead for pod %s failed", attempt.pod.metadata.key)


def _error(message: str) -> bytes:
    return msgspec.json.encode({"Error": message})
