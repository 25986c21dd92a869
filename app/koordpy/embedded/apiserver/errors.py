"""Errors of requests, with the messages and format of kube-apiserver's Status objects."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from koordpy.api.field_cause import Cause

Document = dict[str, Any]


class ApiError(Exception):
    """A request that fails; `status` is the answer's body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        name: str = "",
        group: str = "",
        kind: str = "",
        causes: Sequence[Cause] = (),
        retry_after: int = 0,
        continue_: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after
        details: Document = {}
        if name:
            details["name"] = name
        if group:
            details["group"] = group
        if kind:
            details["kind"] = kind
        if causes:
            details["causes"] = [
                {"reason": cause.reason, "message": cause.message}
                | ({"field": cause.field} if cause.field else {})
                for cause in causes
            ]
        if retry_after:
            details["retryAfterSeconds"] = retry_after
        self.status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": continue_} if continue_ else {},
            "status": "Failure",
            "message": message,
            **({"reason": reason} if reason else {}),
            **({"details": details} if details else {}),
            "code": code,
        }

    @property
    def body(self) -> bytes:
        """The Status object as JSON."""
        return msgspec.json.encode(self.status) + b"\n"


def qualified(plural: str, group: str) -> str:
    """`pods`, `deployments.apps`: how messages name a resource."""
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> ApiError:
    """404 for an object."""
    message = f'{qualified(plural, group)} "{name}" not found'
    return ApiError(404, "NotFound", message, name=name, group=group, kind=plural)


def unknown_path() -> ApiError:
    """404 for a URL that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409 for a name that is taken."""
    message = f'{qualified(plural, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, name=name, group=group, kind=plural)


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(plural: str, group: str, name: str, problem: str = MODIFIED) -> ApiError:
    """409 for an object in another state than the request assumes."""
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {problem}'
    return ApiError(409, "Conflict", message, name=name, group=group, kind=plural)


def forbidden(plural: str, group: str, name: str, problem: str, causes: Sequence[Cause] = ()) -> ApiError:
    """403 from admission."""
    what = f"{qualified(plural, group)} {json.dumps(name)}" if name else qualified(plural, group)
    return ApiError(
        403,
        "Forbidden",
        f"{what} is forbidden: {problem}",
        name=name,
        group=group,
        kind=plural,
        causes=causes,
    )


_MOST_CAUSES = 100
_LONGEST_MESSAGE = 100_000


def _cut(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}..."


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with every wrong field, as far as there are few."""
    left = len(causes) - _MOST_CAUSES
    causes = [replace(cause, message=_cut(cause.message)) for cause in causes[:_MOST_CAUSES]]
    if left > 0:
        causes.append(Cause("", "FieldValueInvalid", f"and {left} more"))
    texts = list(dict.fromkeys(map(str, causes)))
    told = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    message = f'{qualified(kind, group)} "{name}" is invalid: {told}'
    return ApiError(422, "Invalid", message, name=name, group=group, kind=kind, causes=causes)


def bad_request(message: str) -> ApiError:
    """400 for a malformed request."""
    return ApiError(400, "BadRequest", message)


def method_not_allowed() -> ApiError:
    """405 for a verb that a resource does not have."""
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


def expired(message: str, continue_: str = "") -> ApiError:
    """410 for history that was discarded."""
    return ApiError(410, "Expired", message, continue_=continue_)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415 for a body in another format."""
    listed = ", ".join(accepted)
    message = f"the body of the request was in an unknown format - accepted media types include: {listed}"
    return ApiError(415, "UnsupportedMediaType", message)


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    """406 for an answer that is not available in the requested format."""
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", message)


def too_many_requests(message: str, causes: Sequence[Cause] = (), retry_after: int = 0) -> ApiError:
    """429, such as an eviction that a disruption budget does not allow."""
    return ApiError(429, "TooManyRequests", message, causes=causes, retry_after=retry_after)


def internal(message: str) -> ApiError:
    """500."""
    return ApiError(
        500, "InternalError", f"Internal error occurred: {message}", causes=[Cause("", "", message)]
    )


def success(name: str = "", group: str = "", kind: str = "", uid: str = "", code: int = 0) -> Document:
    """The Status object of a success without an object to return."""
    details = {k: v for k, v in (("name", name), ("group", group), ("kind", kind), ("uid", uid)) if v}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({"details": details} if details else {}),
        **({"code": code} if code else {}),
    }
