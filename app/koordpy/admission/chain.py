"""A webhook path with its handlers: from a request to a verdict and its patch operations.

The chain reads the object, calls the handlers in order, stops at the first that refuses, and converts every
exception of a handler into a response. `koordpy.admission.review` adds the AdmissionReview envelope.

Source of the order of steps: Koordinator, `pkg/webhook/pod/mutating/mutating_handler.go`; of the handling of
failures: controller-runtime, `pkg/webhook/admission`.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import msgspec
from prometheus_client import Histogram

from koordpy.api import typed
from koordpy.api.document import Document
from koordpy.api.scheme import MALFORMED, DecodeError
from koordpy.lib.clock import Clock, SystemClock

from .handler import (
    DELETE,
    OPERATIONS,
    AsyncMutatingHandler,
    AsyncValidatingHandler,
    Denied,
    Errored,
    Handler,
    MutatingHandler,
    Request,
    ValidatingHandler,
)
from .history import Admission, History
from .metrics import HANDLER_DURATION, IN_FLIGHT, LATENCY, PANICS, REQUESTS
from .paths import WebhookPath, webhook_path

log = logging.getLogger(__name__)

TOO_DEEP: Final = "the object, or JSON in one of its annotations, is nested too deeply"

_LONGEST_MESSAGE = 500

NO_CONTENT = "there is no content to decode"

Step = Callable[[Request], None]
AsyncStep = Callable[[Request], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Response:
    """The verdict on a request. `patch` is the JSON text of RFC 6902 operations, empty for none."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    patch: bytes = b""


ALLOWED = Response(True)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An asynchronous handler and its call."""

    handler: Handler
    step: AsyncStep


class Chain:
    """The handlers of one path, in order.

    `waits`: whether a handler is asynchronous. `history` holds the last verdicts; `answered` counts the
    responses, also those without a verdict, and `in_flight` the requests without a response.
    """

    def __init__(
        self,
        path: str,
        handlers: Sequence[Handler],
        *,
        history: History | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take the handlers of `path` in their order. Raises ValueError for a handler of another path."""
        for handler in handlers:
            if handler.path != path:
                raise ValueError(f"handler {handler.identity()} belongs to {handler.path}, not to {path}")
        self.path: WebhookPath = webhook_path(path)
        self.handlers = tuple(handlers)
        self.history = history if history is not None else History()
        self._clock = clock or SystemClock()
        self._stretches = _stretches(self.handlers)
        self.waits = len(self._stretches) > 1
        self._durations: dict[tuple[str, str, bool], Histogram] = {}
        self._latency = LATENCY.labels(path)
        self.answered = REQUESTS.labels(path, "200")
        REQUESTS.labels(path, "500")  # dashboards divide by it
        self.in_flight = IN_FLIGHT.labels(path)

    def admit(self, request: Request, raw_object: bytes | msgspec.Raw) -> Response:
        """Decide on a request whose object is given as JSON text (empty or null: none). Never raises.

        In a chain that `waits` this is for dry runs, in which no handler waits; another request is refused
        with status 500 by the first handler that waits.
        """
        began = perf_counter()
        return self._answered(request, self.rehearse(request, raw_object), began)

    def rehearse(self, request: Request, raw_object: bytes | msgspec.Raw) -> Response:
        """Decide as `admit` does, without counting or recording the request."""
        try:
            response = self._open(request, raw_object)
            if response is None:
                for steps, waiting in self._stretches:
                    self._run(request, steps)
                    if waiting is not None:
                        _at_once(waiting.handler, self._wait(request, waiting))
                response = _verdict(request)
        except Exception as error:
            response = self._failed(request, error)
        return response

    async def admit_waiting(self, request: Request, raw_object: bytes | msgspec.Raw) -> Response:
        """Decide as `admit` does, waiting for asynchronous handlers. Raises nothing but CancelledError."""
        began = perf_counter()
        try:
            response = self._open(request, raw_object)
            if response is None:
                for steps, waiting in self._stretches:
                    self._run(request, steps)
                    if waiting is not None:
                        await self._wait(request, waiting)
                response = _verdict(request)
        except Exception as error:
            response = self._failed(request, error)
        return self._answered(request, response, began)

    def _open(self, request: Request, raw_object: bytes | msgspec.Raw) -> Response | None:
        """Read the object; return a verdict where no handler needs to run."""
        path = self.path
        if path.resource and (
            request.resource.resource != path.resource or request.sub_resource != path.sub_resource
        ):
            return ALLOWED
        if path.allows_empty_delete and request.operation == DELETE and not request.raw_old_object:
            return ALLOWED
        document = self._read(request, raw_object) if path.reads_object else None
        if document is not None:
            request.take(document)
        if path.operations and request.operation not in path.operations:
            return ALLOWED
        if request.explanation is not None and document is not None:
            request.explanation.start(document)
        return None

    def _run(self, request: Request, steps: Sequence[tuple[Handler, Step]]) -> None:
        """Call synchronous handlers until one refuses."""
        document, explanation = request.document, request.explanation
        for handler, step in steps:
            if explanation is not None:
                explanation.handler = handler.name
            began = perf_counter()
            allowed = False
            try:
                step(request)
                allowed = True
            finally:
                if explanation is None:
                    duration = self._duration(handler, request.operation, allowed)
                    duration.observe((perf_counter() - began) * 1000)
            if explanation is not None and document is not None:
                explanation.changed(document, handler.name)

    async def _wait(self, request: Request, waiting: _Waiting) -> None:
        """Call an asynchronous handler."""
        document, explanation = request.document, request.explanation
        name = waiting.handler.name
        if explanation is not None:
            explanation.handler = name
        began = perf_counter()
        allowed = False
        try:
            await waiting.step(request)
            allowed = True
        finally:
            if explanation is None:
                duration = self._duration(waiting.handler, request.operation, allowed)
                duration.observe((perf_counter() - began) * 1000)
        if explanation is not None and document is not None:
            explanation.changed(document, name)

    def _failed(self, request: Request, error: Exception) -> Response:
        """Convert an exception of reading the object, or of a handler, into a response."""
        match error:
            case Denied():
                return Response(False, 403, "Forbidden", error.message)
            case Errored():
                return Response(False, error.code, "", error.message)
            case DecodeError():
                return Response(False, 400, "", str(error))
            case RecursionError():
                return Response(False, 400, "", TOO_DEEP)
        PANICS.inc()
        log.error("%s: %s failed", self.path.path, _name_of(request), exc_info=error)
        return Response(False, 500, "", f"panic: {error} [recovered]")

    def _answered(self, request: Request, response: Response, began: float) -> Response:
        """Count and record a response; a refusal is logged with the object's name and no other content."""
        seconds = perf_counter() - began
        if not response.allowed:
            log.info(
                "%s: %s refused with %d: %s",
                self.path.path,
                _name_of(request),
                response.code,
                one_line(response.message),
            )
        self._latency.observe(seconds)
        self.answered.inc()
        self.history.add(
            Admission(
                self._clock.now(),
                self.path.path,
                request.uid,
                request.operation,
                request.namespace,
                request.name,
                response.allowed,
                response.code,
                response.message,
                response.patch,
                seconds,
            )
        )
        return response

    def _read(self, request: Request, raw: bytes | msgspec.Raw) -> Document | None:
        """Read the object, and the oldObject where the path requires it. Raises Errored(400)."""
        raw = bytes(raw)
        path = self.path
        if path.kind and request.operation in path.old_object:
            if request.operation == DELETE:
                if request.raw_old_object:
                    self._read_object(request.raw_old_object)
                return None
            document = self._read_object(raw)
            self._read_object(request.raw_old_object)
            return Document(document)
        if request.operation == DELETE and not path.kind and (not raw or raw == b"null"):
            return None
        return Document(self._read_object(raw))

    def _read_object(self, raw: bytes) -> dict[str, Any]:
        if not raw or raw == b"null":
            raise Errored(400, NO_CONTENT)
        path = self.path
        try:
            document = typed.check(path.kind, raw) if path.kind else msgspec.json.decode(raw, type=dict)
        except (DecodeError, *MALFORMED) as error:
            raise Errored(400, str(error)) from None
        if path.kind:
            kind = document.get("kind") or path.kind
            api_version = document.get("apiVersion") or path.api_version
            if kind != path.kind or api_version != path.api_version:
                raise Errored(400, f"unable to decode {api_version}, Kind={kind} into {path.kind}")
        return document

    def _duration(self, handler: Handler, operation: str, allowed: bool) -> Histogram:
        if operation not in OPERATIONS:
            operation = "other"  # clients must not be able to create label values
        key = (handler.name, operation, allowed)
        known = self._durations.get(key)
        if known is None:
            known = self._durations[key] = HANDLER_DURATION.labels(
                self.path.type or "other",
                self.path.object_type or "other",
                operation,
                handler.metric_name or handler.name,
                "allowed" if allowed else "rejected",
            )
        return known


def _stretches(handlers: Sequence[Handler]) -> list[tuple[list[tuple[Handler, Step]], _Waiting | None]]:
    """Split a chain into runs of synchronous handlers, each followed by an asynchronous one."""
    stretches: list[tuple[list[tuple[Handler, Step]], _Waiting | None]] = []
    steps: list[tuple[Handler, Step]] = []
    for handler in handlers:
        if isinstance(handler, AsyncValidatingHandler | AsyncMutatingHandler):
            stretches.append((steps, _Waiting(handler, _async_step(handler))))
            steps = []
        else:
            steps.append((handler, _step(handler)))
    return [*stretches, (steps, None)]


def _step(handler: Handler) -> Step:
    """Return one callable for both kinds of synchronous handlers."""
    if isinstance(handler, ValidatingHandler):
        return handler.validate
    if not isinstance(handler, MutatingHandler):
        raise TypeError(
            f"handler {handler.identity()}: {type(handler).__name__} is neither a MutatingHandler nor a "
            "ValidatingHandler, nor one of their asynchronous variants"
        )
    mutate = handler.mutate

    def step(request: Request) -> None:
        if request.document is not None:
            mutate(request, request.document)

    return step


def _async_step(handler: AsyncValidatingHandler | AsyncMutatingHandler) -> AsyncStep:
    """Return one callable for both kinds of asynchronous handlers."""
    if isinstance(handler, AsyncValidatingHandler):
        return handler.validate
    mutate = handler.mutate

    async def step(request: Request) -> None:
        if request.document is not None:
            await mutate(request, request.document)

    return step


def _at_once(handler: Handler, call: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that must not wait."""
    try:
        call.send(None)
    except StopIteration:
        return
    finally:
        call.close()
    raise Errored(500, f"handler {handler.identity()} has to wait, which this chain does not allow")


def _verdict(request: Request) -> Response:
    """Return the verdict on a request that no handler refused."""
    document = request.document
    if document is None or not document.changed:
        return ALLOWED
    return Response(True, patch=document.patch_bytes())


def one_line(message: str) -> str:
    """Return a message for the log: one line, printable, of limited length."""
    line = " ".join(message[: 2 * _LONGEST_MESSAGE].split())
    if not line.isprintable():
        line = line.encode("unicode_escape").decode()
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[:_LONGEST_MESSAGE]}..."


def _name_of(request: Request) -> str:
    """Return the name of a request for the log; its parts are client input."""
    what = f"{request.operation} of {request.resource.resource}"
    return one_line(f"{what} {request.namespace}/{request.name}")
