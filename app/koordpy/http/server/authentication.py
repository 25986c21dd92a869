"""Authentication and authorization of the debug API, delegated to the API server.

As in Kubernetes' own components, a bearer token is checked by TokenReview and the path by SubjectAccessReview
(`nonResourceURLs` in RBAC); results are cached for ten seconds. Health checks need neither.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

from koordpy.api.meta import KubeObject
from koordpy.api.scheme import Resource
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.lib.clock import Clock

from .asgi import TEXT, ASGIApp, Receive, Scope, Send, header, send_answer

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, KubeObject)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, KubeObject
)

OPEN_PATHS = ("/livez", "/readyz", "/healthz")
CACHE_SECONDS = 10.0
_CACHE_SIZE = 4096


@dataclass(frozen=True)
class _Decision:
    status: int
    message: str
    until: float


class Authenticated:
    """An ASGI application that passes on only requests that the API server authenticates and authorizes."""

    def __init__(self, app: ASGIApp, client: Client, clock: Clock) -> None:
        self._app, self._client, self._clock = app, client, clock
        self._decisions: dict[tuple[str, str, str], _Decision] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401, 403 or 503 with the reason."""
        if scope["type"] != "http" or _is_open(str(scope["path"])):
            await self._app(scope, receive, send)
            return
        decision = await self._decide(scope)
        if decision.status == 200:
            await self._app(scope, receive, send)
            return
        challenge = ((b"www-authenticate", b"Bearer"),) if decision.status == 401 else ()
        await send_answer(send, decision.status, f"{decision.message}\n".encode(), TEXT, *challenge)

    async def _decide(self, scope: Scope) -> _Decision:
        token = _bearer_token(scope)
        if not token:
            return _Decision(401, "a bearer token is needed", 0.0)
        verb = "get" if scope["method"] in ("GET", "HEAD") else str(scope["method"]).lower()
        key = (hashlib.sha256(token.encode()).hexdigest(), verb, str(scope["path"]))
        known = self._decisions.get(key)
        now = self._clock.monotonic()
        if known is not None and known.until > now:
            return known
        status, message = await self._review(token, verb, str(scope["path"]))
        decision = _Decision(status, message, now + CACHE_SECONDS)
        if status != 503:
            if len(self._decisions) >= _CACHE_SIZE:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    async def _review(self, token: str, verb: str, path: str) -> tuple[int, str]:
        try:
            review = await self._client.create_raw(
                TOKEN_REVIEWS, "", _document(TOKEN_REVIEWS, {"token": token})
            )
            status = review.get("status") or {}
            if not status.get("authenticated"):
                return 401, "the token is not accepted"
            user = status.get("user") or {}
            spec = {
                "user": user.get("username", ""),
                "uid": user.get("uid", ""),
                "groups": user.get("groups") or [],
                "extra": user.get("extra") or {},
                "nonResourceAttributes": {"path": path, "verb": verb},
            }
            access = await self._client.create_raw(ACCESS_REVIEWS, "", _document(ACCESS_REVIEWS, spec))
        except ApiError as error:
            return 503, f"not authorized: the API server answered {error.reason or error.status}"
        except ConnectionFailed:
            return 503, "not authorized: the API server does not answer"
        if (access.get("status") or {}).get("allowed"):
            return 200, ""
        return 403, f"{user.get('username', 'this user')} may not {verb} {path}"


def _is_open(path: str) -> bool:
    return any(path == open_ or path.startswith(f"{open_}/") for open_ in OPEN_PATHS)


def _document(resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}


def _bearer_token(scope: Scope) -> str:
    kind, _, token = header(scope, b"authorization").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
