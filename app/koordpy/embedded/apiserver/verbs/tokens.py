"""Bearer tokens: given ones, and those that TokenRequests issue for service accounts.

Issued tokens are JWTs, signed with a key that the process draws at its start: they end with it.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from koordpy.api.field_cause import invalid_value
from koordpy.api.meta import format_time
from koordpy.lib.clock import Clock

from ..attributes import Attributes
from ..catalog import Served
from ..errors import invalid, not_found
from ..kinds import forms
from ..representation import bodies
from ..storage import key_of
from ..wire import Request, Response

Document = dict[str, Any]

_HEADER = {"alg": "HS256", "typ": "JWT"}
_AUDIENCE = "https://kubernetes.default.svc"
_LEAST, _MOST, _DEFAULT = 600, 1 << 32, 3600


class Tokens:
    """Issues tokens and finds their users."""

    def __init__(self, accounts: Served, known: Mapping[str, Document], clock: Clock, key: bytes) -> None:
        self._accounts, self._known, self._clock, self._key = accounts, known, clock, key

    def user_of(self, token: str) -> Document | None:
        """Return the user info of a token, or None if it is not valid (any more)."""
        known = self._known.get(token)
        return known if known is not None else self._read(token)

    async def create(self, request: Request, attrs: Attributes) -> Response:
        """POST of a TokenRequest to serviceaccounts/NAME/token."""
        document = bodies.load_object(request)
        bodies.take_type(attrs.served, document, ("TokenRequest", "authentication.k8s.io/v1"))
        forms.check("TokenRequest", document, forms.TokenRequest)
        spec = document.get("spec") or {}
        seconds = _DEFAULT if spec.get("expirationSeconds") is None else spec["expirationSeconds"]
        if not _LEAST <= seconds <= _MOST:
            told = "may not specify a duration less than 10 minutes"
            if seconds > _MOST:
                told = "may not specify a duration larger than 2^32 seconds"
            cause = invalid_value("spec.expirationSeconds", seconds, told)
            raise invalid("TokenRequest", "authentication.k8s.io", "", [cause])
        record = self._accounts.table.get(key_of(attrs.namespace, attrs.name))
        if record is None:
            raise not_found("serviceaccounts", "", attrs.name)
        now = self._clock.now()
        ends = now + timedelta(seconds=seconds)
        audiences = spec.get("audiences") or [_AUDIENCE]
        claims = {
            "aud": audiences,
            "exp": int(ends.timestamp()),
            "iat": int(now.timestamp()),
            "iss": _AUDIENCE,
            "kubernetes.io": {
                "namespace": attrs.namespace,
                "serviceaccount": {"name": attrs.name, "uid": record.uid},
            },
            "sub": f"system:serviceaccount:{attrs.namespace}:{attrs.name}",
        }
        answer = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": attrs.name,
                "namespace": attrs.namespace,
                "creationTimestamp": format_time(now),
            },
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None},
            "status": {"token": self._sign(claims), "expirationTimestamp": format_time(ends)},
        }
        return Response(msgspec.json.encode(answer), 201)

    def _sign(self, claims: Document) -> str:
        text = f"{_encode(msgspec.json.encode(_HEADER))}.{_encode(msgspec.json.encode(claims))}"
        return f"{text}.{self._signature(text)}"

    def _signature(self, text: str) -> str:
        return _encode(hmac.new(self._key, text.encode(), hashlib.sha256).digest())

    def _read(self, token: str) -> Document | None:
        text, _, signature = token.rpartition(".")
        if not hmac.compare_digest(self._signature(text).encode(), signature.encode()):
            return None
        raw = text.partition(".")[2]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))
        own = claims["kubernetes.io"]
        namespace, account = own["namespace"], own["serviceaccount"]
        record = self._accounts.table.get(key_of(namespace, account["name"]))
        if claims["exp"] <= self._clock.now().timestamp() or record is None or record.uid != account["uid"]:
            return None
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        return {"username": claims["sub"], "uid": account["uid"], "groups": groups}


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
