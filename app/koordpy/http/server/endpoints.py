"""An ASGI application of endpoints by path, without FastAPI: for processes that must be small."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from koordpy.lib.endpoint import Answer, Endpoint, Request

from .asgi import ASGIApp, Receive, Scope, Send, send_answer

log = logging.getLogger(__name__)

MAX_BODY: Final = 64 << 10
"""Bytes of a request's body."""

_MAX_PARAMETERS: Final = 64


class Endpoints:
    """Serves endpoints by their paths; a path that ends with a slash is that of everything below, too.

    Of several the longest path wins. `/` lists the paths, as kube-apiserver does.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self._endpoints = dict(endpoints)
        self._endpoints.setdefault("/", Endpoint(self._index))
        prefixes = (path for path in self._endpoints if path.endswith("/") and path != "/")
        self._prefixes = sorted(prefixes, key=len, reverse=True)

    def __contains__(self, path: object) -> bool:
        """Return whether there is an endpoint for a path."""
        return isinstance(path, str) and self._find(path) is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = await self._answer(scope, receive)
        if answer is None:  # the caller is gone
            return
        kind = (b"content-type", answer.content_type.encode())
        body = b"" if scope["method"] == "HEAD" else answer.body
        more = ((name.lower().encode(), value.encode()) for name, value in answer.headers.items())
        await send_answer(send, answer.status, body, kind, *more)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | None:
        path, method = str(scope["path"]), str(scope["method"])
        found = self._find(path)
        if found is None:
            return Answer.problem(f"there is no {path}; / lists what there is", HTTPStatus.NOT_FOUND)
        endpoint, rest = found
        if ("GET" if method == "HEAD" else method) not in endpoint.methods:
            problem = f"{path}: got {method}, expected {', '.join(endpoint.methods)}"
            return Answer.problem(problem, HTTPStatus.METHOD_NOT_ALLOWED)
        body = await _body(receive)
        if body is None:
            return None
        if len(body) > MAX_BODY:
            problem = f"{path}: the body has more than {MAX_BODY} bytes"
            return Answer.problem(problem, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            text = scope["query_string"].decode("latin-1")
            query = parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
            answer = endpoint.respond(Request(method, path, query, body, rest, _headers(scope)))
            return answer if isinstance(answer, Answer) else await answer
        except ValueError as error:
            return Answer.problem(str(error), HTTPStatus.BAD_REQUEST)
        except LookupError as error:
            return Answer.problem(str(error.args[0]) if error.args else "not found", HTTPStatus.NOT_FOUND)
        except Exception as error:
            log.exception("%s %s failed", method, path)
            problem = f"internal error ({type(error).__name__})"
            return Answer.problem(problem, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _find(self, path: str) -> tuple[Endpoint, str] | None:
        exact = self._endpoints.get(path)
        if exact is not None:
            return exact, ""
        for prefix in self._prefixes:
            if path.startswith(prefix):
                return self._endpoints[prefix], path[len(prefix) :]
            if path == prefix[:-1]:
                return self._endpoints[prefix], ""
        return None

    def _index(self, request: Request) -> Answer:
        return Answer.json({"paths": sorted(self._endpoints)})


def _headers(scope: Scope) -> dict[str, str]:
    return {str(name, "latin-1"): str(value, "latin-1") for name, value in scope["headers"]}


async def _body(receive: Receive) -> bytes | None:
    """Return a body, or one byte more than is allowed of it; None if the caller is gone."""
    body = bytearray()
    more = True
    while more and len(body) <= MAX_BODY:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body[: MAX_BODY + 1])


def before(endpoints: Endpoints, app: ASGIApp) -> ASGIApp:
    """Return an application that serves the endpoints, and leaves all other paths to `app`."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        first = scope["type"] == "http" and scope["path"] != "/" and scope["path"] in endpoints
        await (endpoints if first else app)(scope, receive, send)

    return serve
