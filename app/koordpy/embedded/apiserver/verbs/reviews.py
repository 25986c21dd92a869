"""Reviews: who a token or a client is, and what users may do.

Every user may do everything, unless a function says otherwise. A client without a token, or with one that is
unknown, is an administrator: the server has no authentication.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from koordpy.api.field_cause import invalid_value
from koordpy.api.meta import format_time
from koordpy.lib.clock import Clock

from ..attributes import ADMINISTRATOR, Attributes
from ..errors import bad_request, invalid
from ..kinds import forms
from ..representation import bodies
from ..wire import Request, Response
from .tokens import Tokens

Document = dict[str, Any]


IsAllowed = Callable[[Document], bool]
"""Returns whether the spec of an access review is allowed."""


class Reviews:
    """Answers reviews."""

    def __init__(self, tokens: Tokens, is_allowed: IsAllowed | None, clock: Clock) -> None:
        self._tokens, self._is_allowed, self._clock = tokens, is_allowed, clock

    async def create(self, request: Request, attrs: Attributes) -> Response:
        """POST of a review: nothing is stored, the answer is in the status."""
        served = attrs.served
        document = bodies.load_object(request)
        bodies.take_type(served, document)
        forms.check(served.kind, document, forms.Review)
        spec = document.get("spec") or {}
        metadata = {"creationTimestamp": None, **(document.get("metadata") or {})}
        match served.kind:
            case "TokenReview":
                status = self._token(spec)
            case "SelfSubjectReview":
                metadata["creationTimestamp"] = format_time(self._clock.now())
                status = {"userInfo": self._client(request)}
            case "SelfSubjectRulesReview":
                status = self._rules(spec)
            case _:
                status = self._access(attrs, spec)
        answer = {
            "kind": served.kind,
            "apiVersion": served.api_version,
            "metadata": metadata,
            **({"spec": spec} if served.kind != "SelfSubjectReview" else {}),
            "status": status,
        }
        return Response(msgspec.json.encode(answer), 201)

    def _token(self, spec: Document) -> Document:
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        user = self._tokens.user_of(spec["token"])
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": dict(user)}

    def _client(self, request: Request) -> Document:
        """The user of a request."""
        scheme, _, token = request.header(b"authorization").partition(" ")
        user = self._tokens.user_of(token.strip()) if scheme.lower() == "bearer" else None
        return dict(ADMINISTRATOR if user is None else user)

    def _rules(self, spec: Document) -> Document:
        """The rules of the client in a namespace: all, or unknown where a function decides."""
        if not spec.get("namespace"):
            raise bad_request("no namespace on request")
        if self._is_allowed is not None:
            told = "a function decides what is allowed"
            return {"resourceRules": [], "nonResourceRules": [], "incomplete": True, "evaluationError": told}
        return {
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        }

    def _access(self, attrs: Attributes, spec: Document) -> Document:
        served = attrs.served
        if (spec.get("resourceAttributes") is None) == (spec.get("nonResourceAttributes") is None):
            told = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            cause = invalid_value("spec.resourceAttributes", spec.get("resourceAttributes"), told)
            raise invalid(served.kind, served.group, "", [cause])
        if not served.kind.startswith("Self") and not (spec.get("user") or spec.get("groups")):
            cause = invalid_value("spec.user", "", "at least one of user or group must be specified")
            raise invalid(served.kind, served.group, "", [cause])
        if served.namespaced:
            given = (spec.get("resourceAttributes") or {}).get("namespace", "")
            if given != attrs.namespace:
                told = f"must match metadata.namespace ({attrs.namespace})"
                cause = invalid_value("spec.resourceAttributes.namespace", given, told)
                raise invalid(served.kind, served.group, "", [cause])
        return {"allowed": self._is_allowed is None or self._is_allowed(spec)}
