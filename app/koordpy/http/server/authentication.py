"""Authentication and authorization of the debug API, delegated to the API server.

As in Kubernetes' own components, a bearer token is checked by TokenReview and the path by SubjectAccessReview
(`nonResourceURLs` in RBAC); results are cached for ten seconds. Health checks need neither.

Any caller can send tokens, so reviews are bounded: only a number of them run at a time, and reviews of tokens
that were not accepted before are limited to a rate. Beyond these, callers get status 429; those whose tokens
were accepted lately are not affected by others.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from koordpy.api.meta import KubeObject
from koordpy.api.scheme import Resource
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.lib.clock import Clock
from koordpy.lib.token_bucket import TokenBucket

from .asgi import TEXT, ASGIApp, Receive, Scope, Send, header, send_answer

K = TypeVar("K")
V = TypeVar("V")

TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, KubeObject)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, KubeObject
)

OPEN_PATHS = ("/livez", "/readyz", "/healthz")
CACHE_SECONDS = 10.0

_ACCEPTED: Final = 1024
"""The most tokens that are remembered as accepted."""

_REFUSED: Final = 1024
"""The most tokens that are remembered as refused: 64 bytes and a time each."""

_DECISIONS: Final = 4096
"""The most remembered decisions about paths; only for accepted tokens."""

_PATH: Final = 256
"""The longest path whose decision is remembered."""

_TOKEN: Final = 16 * 1024
"""The longest token that is reviewed."""

_RATE, _BURST = 5.0, 20
"""Reviews of unknown tokens per second, and at once."""

_AT_ONCE: Final = 8
"""The most reviews that run at a time of unknown tokens."""

_NOT_ACCEPTED: Final = "the token is not accepted"
_TOO_MANY: Final = "too many tokens are being reviewed; try again later"


@dataclass(frozen=True)
class _Decision:
    status: int
    message: str
    until: float


class Authenticated:
    """An ASGI application that passes on only requests that the API server authenticates and authorizes."""

    def __init__(self, app: ASGIApp, client: Client, clock: Clock) -> None:
        self._app, self._client, self._clock = app, client, clock
        self._decisions: OrderedDict[tuple[bytes, str, str], _Decision] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()  # until when
        self._accepted: OrderedDict[bytes, None] = OrderedDict()
        self._unknown = TokenBucket(_RATE, _BURST, clock)
        self._reviewing = 0  # unknown tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer 401, 403, 429 or 503 with the reason."""
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
        if len(token) > _TOKEN:
            return _Decision(401, f"the token has more than {_TOKEN} characters", 0.0)
        digest, path, now = (
            hashlib.sha256(token.encode()).digest(),
            str(scope["path"]),
            self._clock.monotonic(),
        )
        key = (digest, verb, path)
        known = self._decisions.get(key)
        if known is not None and known.until > now:
            return known
        if self._refused.get(digest, 0.0) > now:
            return _Decision(401, _NOT_ACCEPTED, 0.0)
        is_known = digest in self._accepted
        if not is_known and (self._reviewing >= _AT_ONCE or not self._unknown.take()):
            return _Decision(429, _TOO_MANY, 0.0)
        self._reviewing += not is_known
        try:
            status, message = await self._review(token, verb, path)
        finally:
            self._reviewing -= not is_known
        decision = _Decision(status, message, now + CACHE_SECONDS)
        if status == 401:
            self._accepted.pop(digest, None)
            _remember(self._refused, digest, decision.until, _REFUSED)
        elif status != 503:
            _remember(self._accepted, digest, None, _ACCEPTED)
            if len(path) <= _PATH:
                _remember(self._decisions, key, decision, _DECISIONS)
        return decision

    async def _review(self, token: str, verb: str, path: str) -> tuple[int, str]:
        try:
            review = await self._client.create_raw(
                TOKEN_REVIEWS, "", _document(TOKEN_REVIEWS, {"token": token})
            )
            status = review.get("status") or {}
            if not status.get("authenticated"):
                return 401, _NOT_ACCEPTED
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


def _remember(known: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)


def _is_open(path: str) -> bool:
    return any(path == open_ or path.startswith(f"{open_}/") for open_ in OPEN_PATHS)


def _document(resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}


def _bearer_token(scope: Scope) -> str:
    kind, _, token = header(scope, b"authorization").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
