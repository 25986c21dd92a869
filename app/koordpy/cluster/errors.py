"""Errors of the API server: one class for every answer that code treats differently."""

from typing import Any

import msgspec

_SHOWN_BODY = 300


class ApiError(Exception):
    """An answer other than success.

    `reason` is Kubernetes' machine-readable reason (`NotFound`, ...), `details` the Status's details (may be
    empty), `retry_after` the Retry-After seconds, or None.
    """

    def __init__(
        self,
        method: str,
        path: str,
        status: int,
        reason: str,
        message: str,
        details: dict[str, Any],
        retry_after: float | None,
    ) -> None:
        super().__init__(f"{method} {path}: {status} {reason}: {message}")
        self.problem = f"{status} {reason}: {message}"
        """The message without the request, the same for all requests that fail for one cause."""
        self.method, self.path, self.status = method, path, status
        self.reason, self.message, self.details, self.retry_after = reason, message, details, retry_after


class BadRequest(ApiError):
    """400: the request is malformed."""


class Unauthorized(ApiError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiError):
    """403: not allowed with these credentials, or rejected by admission."""


class NotFound(ApiError):
    """404: no such object, or no such resource type."""


class AlreadyExists(ApiError):
    """409 with reason AlreadyExists: the name is taken."""


class Conflict(ApiError):
    """409: the object was replaced or changed meanwhile."""


class Gone(ApiError):
    """410: the resource version or continue token is too old."""


class Invalid(ApiError):
    """422: the object breaks a rule of its kind."""


class TooManyRequests(ApiError):
    """429: the server is busy, or a PodDisruptionBudget forbids the eviction."""


class ServerError(ApiError):
    """5xx: the server failed; the request may have taken effect."""


class ConnectionFailed(Exception):
    """No answer. `sent` is whether the request may have taken effect."""

    def __init__(self, method: str, path: str, cause: Exception, *, sent: bool) -> None:
        super().__init__(f"{method} {path}: {cause}")
        self.problem = str(cause)
        self.method, self.path, self.sent = method, path, sent


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Status(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: dict[str, Any] | None = None


def error_of(method: str, path: str, status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """Convert an answer into its error. The body is a Status, or text from a proxy."""
    try:
        known = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        known = _Status(message=body[:_SHOWN_BODY].decode(errors="replace"))
    status = known.code or status
    details = known.details or {}
    wait = _seconds(retry_after)
    if wait is None:
        wait = _seconds(details.get("retryAfterSeconds"))
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if kind is Conflict and known.reason == "AlreadyExists":
        kind = AlreadyExists
    return kind(
        method, path, status, known.reason or kind.__name__, known.message or "no message", details, wait
    )


def _seconds(value: object) -> float | None:
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None  # Retry-After may be a date; API servers send seconds
    return seconds if 0 < seconds < 86400 else None
