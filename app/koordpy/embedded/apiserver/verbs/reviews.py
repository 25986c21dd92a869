"""TokenReview and SubjectAccessReview.

The server has no users: a table maps bearer tokens to users, and every user may do everything. The result of
access reviews can be set by a function.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..attributes import Attributes
from ..errors import bad_request, invalid, invalid_value
from ..kinds import forms
from ..representation import bodies
from ..wire import Request, Response

Document = dict[str, Any]


IsAllowed = Callable[[Document], bool]
"""Returns whether the spec of an access review is allowed."""


class Reviews:
    """Answers reviews. `tokens` maps bearer tokens to user infos (`username`, `groups`, ...)."""

    def __init__(self, tokens: Mapping[str, Document], is_allowed: IsAllowed | None = None) -> None:
        self._tokens, self._is_allowed = tokens, is_allowed

    async def create(self, request: Request, attrs: Attributes) -> Response:
        """POST of a review: nothing is stored, the answer is in the status."""
        served = attrs.served
        document = bodies.load_object(request)
        bodies.take_type(served, document)
        forms.check(served.kind, document, forms.Review)
        spec = document.get("spec") or {}
        if served.kind == "TokenReview":
            if not spec.get("token"):
                raise bad_request("token is required for TokenReview in authentication")
            user = self._tokens.get(spec.get("token", ""))
            status: Document = {"authenticated": True, "user": dict(user)} if user else {"user": {}}
            if not user:
                status["error"] = "invalid bearer token"
        else:
            if (spec.get("resourceAttributes") is None) == (spec.get("nonResourceAttributes") is None):
                told = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
                cause = invalid_value("spec.resourceAttributes", spec.get("resourceAttributes"), told)
                raise invalid(served.kind, served.group, "", [cause])
            if served.kind == "SubjectAccessReview" and not (spec.get("user") or spec.get("groups")):
                cause = invalid_value("spec.user", "", "at least one of user or group must be specified")
                raise invalid(served.kind, served.group, "", [cause])
            status = {"allowed": self._is_allowed is None or self._is_allowed(spec)}
        metadata = {"creationTimestamp": None, **(document.get("metadata") or {})}
        answer = {
            "kind": served.kind,
            "apiVersion": served.api_version,
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }
        return Response(msgspec.json.encode(answer), 201)
