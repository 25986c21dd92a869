"""A webhook path with its handlers: from a request to a verdict and the operations that go with it.

The chain reads the object, calls the handlers in order, stops at the first that refuses, and turns whatever
a handler raises into an answer. `koordpy.admission.review` puts the AdmissionReview envelope around it.

Source of the order of steps: Koordinator, `pkg/webhook/pod/mutating/mutating_handler.go`; of the treatment of
failures: controller-runtime, `pkg/webhook/admission`.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import msgspec
from prometheus_client import Histogram

from koordpy.api import typed
from koordpy.api.document import Document
from koordpy.api.scheme import MALFORMED, DecodeError
from koordpy.lib.clock import Clock, SystemClock

from .handler import DELETE, OPERATIONS, Denied, Errored, Handler, MutatingHandler, Request, ValidatingHandler
from .history import Admission, History
from .metrics import HANDLER_DURATION, LATENCY, PANICS, REQUESTS
from .paths import WebhookPath, webhook_path

log = logging.getLogger(__name__)

NO_CONTENT = "there is no content to decode"


@dataclass(frozen=True, slots=True)
class Response:
    """The verdict on a request. `patch` is the JSON text of RFC 6902 operations, empty for none."""

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    patch: bytes = b""


ALLOWED = Response(True)


class Chain:
    """The handlers of one path, in order.

    `history` holds the last verdicts; `answered` counts the answers, also those without a verdict.
    """

    def __init__(
        self,
        path: str,
        handlers: Sequence[Handler],
        *,
        history: History | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take the handlers of `path` as they shall run. Raises ValueError for a handler of another path."""
        for handler in handlers:
            if handler.path != path:
                raise ValueError(f"handler {handler.identity()} belongs to {handler.path}, not to {path}")
        self.path: WebhookPath = webhook_path(path)
        self.handlers = tuple(handlers)
        self.history = history if history is not None else History()
        self._clock = clock or SystemClock()
        self._steps = [(handler, _step(handler)) for handler in handlers]
        self._durations: dict[tuple[str, str, bool], Histogram] = {}
        self._latency = LATENCY.labels(path)
        self.answered = REQUESTS.labels(path, "200")

    def admit(self, request: Request, raw_object: bytes | msgspec.Raw) -> Response:
        """Decide on a request whose object is given as JSON text (empty or null: none). Never raises."""
        began = perf_counter()
        try:
            response = self._admit(request, raw_object)
        except Denied as refusal:
            response = Response(False, 403, "Forbidden", refusal.message)
        except Errored as refusal:
            response = Response(False, refusal.code, "", refusal.message)
        except DecodeError as error:
            response = Response(False, 400, "", str(error))
        except Exception as error:
            PANICS.inc()
            log.exception("%s: %s of %s failed", self.path.path, request.operation, _name_of(request))
            response = Response(False, 500, "", f"panic: {error} [recovered]")
        seconds = perf_counter() - began
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

    def _admit(self, request: Request, raw_object: bytes | msgspec.Raw) -> Response:
        path = self.path
        if path.resource and (
            request.resource.resource != path.resource or request.sub_resource != path.sub_resource
        ):
            return ALLOWED
        if path.allows_empty_delete and request.operation == DELETE and not request.raw_old_object:
            return ALLOWED
        document = request.document = self._read(request, raw_object) if path.reads_object else None
        if document is not None:
            request.namespace = document.get(("metadata", "namespace")) or request.namespace
        if path.operations and request.operation not in path.operations:
            return ALLOWED
        explanation = request.explanation
        if explanation is not None and document is not None:
            explanation.start(document)
        for handler, step in self._steps:
            if explanation is not None:
                explanation.handler = handler.name
            began = perf_counter()
            allowed = False
            try:
                step(request)
                allowed = True
            finally:
                duration = self._duration(handler.name, request.operation, allowed)
                duration.observe((perf_counter() - began) * 1000)
            if explanation is not None and document is not None:
                explanation.changed(document, handler.name)
        if document is None or not document.changed:
            return ALLOWED
        return Response(True, patch=document.patch_bytes())

    def _read(self, request: Request, raw: bytes | msgspec.Raw) -> Document | None:
        """Read the object, and the oldObject where the path says so. Raises Errored(400)."""
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

    def _duration(self, handler: str, operation: str, allowed: bool) -> Histogram:
        if operation not in OPERATIONS:
            operation = "other"  # a label must not take whatever a client sends
        key = (handler, operation, allowed)
        known = self._durations.get(key)
        if known is None:
            known = self._durations[key] = HANDLER_DURATION.labels(
                self.path.type or "other",
                self.path.object_type or "other",
                operation,
                handler,
                "allowed" if allowed else "rejected",
            )
        return known


def _step(handler: Handler) -> Callable[[Request], None]:
    """Make one call of both kinds of handlers."""
    if isinstance(handler, ValidatingHandler):
        return handler.validate
    if not isinstance(handler, MutatingHandler):
        raise TypeError(
            f"handler {handler.identity()}: {type(handler).__name__} is neither a MutatingHandler nor a "
            "ValidatingHandler"
        )
    mutate = handler.mutate

    def step(request: Request) -> None:
        if request.document is not None:
            mutate(request, request.document)

    return step


def _name_of(request: Request) -> str:
    return f"{request.resource.resource} {request.namespace}/{request.name}"
