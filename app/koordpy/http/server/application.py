"""The ASGI application of one listener: hot paths first, everything else through FastAPI.

FastAPI's routing and its request and response objects cost more than many of koordpy's answers, so the paths
that a cluster calls for every pod are looked up in a dict before FastAPI gets the request.
"""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from koordpy.api.config_model import problem

from .asgi import TEXT, ASGIApp, Receive, Scope, Send, send_answer
from .direct import Direct

_NOT_READY = b"not ready: the cluster has not been listed yet, see /readyz\n"


class Application:
    """An ASGI application: `hot` has endpoints by their exact paths, FastAPI serves the routers.

    Until `is_ready` returns True, the hot paths answer 503: a decision on an incomplete view of the cluster
    could be wrong, and kube-apiserver and kube-scheduler handle a failed call.
    """

    def __init__(
        self,
        title: str,
        routers: Sequence[APIRouter],
        hot: Mapping[str, ASGIApp],
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._hot = dict(hot)
        self._direct = {path: endpoint for path, endpoint in hot.items() if isinstance(endpoint, Direct)}
        self._is_ready, self._ready = is_ready, False
        self.rest = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url="/openapi.json")
        self.rest.add_exception_handler(Exception, _internal_error)
        self.rest.add_exception_handler(ClientDisconnect, _caller_is_gone)
        self.rest.add_exception_handler(HTTPException, _http_error)
        self.rest.add_exception_handler(RequestValidationError, _invalid_parameters)
        for router in routers:
            self.rest.include_router(router)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        endpoint = self._hot.get(scope.get("path", ""))
        if endpoint is None:
            await self.rest(scope, receive, send)
        elif self._ready or self._has_become_ready():
            await endpoint(scope, receive, send)
        else:
            await send_answer(send, 503, _NOT_READY, TEXT)

    def direct_endpoint(self, path: str) -> Direct | None:
        """Return the endpoint of a path that can be answered without ASGI."""
        endpoint = self._direct.get(path)
        return endpoint if endpoint is not None and (self._ready or self._has_become_ready()) else None

    def _has_become_ready(self) -> bool:
        self._ready = self._is_ready()  # cached: once the view is complete, watches keep it complete
        return self._ready


async def _internal_error(_: Request, error: Exception) -> JSONResponse:
    # uvicorn logs the traceback; the caller gets no internals.
    return JSONResponse({"message": f"internal error ({type(error).__name__})"}, status_code=500)


async def _caller_is_gone(_: Request, error: Exception) -> Response:
    return Response(status_code=HTTPStatus.BAD_REQUEST)  # it is dropped; a caller that hangs up is no error


async def _http_error(request: Request, error: Exception) -> Response:
    """Respond to an HTTP error in the format of Koordinator's API."""
    assert isinstance(error, HTTPException)
    message, path = str(error.detail), request.url.path
    if message == HTTPStatus.NOT_FOUND.phrase:
        if path.startswith("/apis/v1/"):
            return PlainTextResponse("404 page not found", error.status_code)
        message = f"there is no {path}; /openapi.json lists what there is"
    elif message == HTTPStatus.METHOD_NOT_ALLOWED.phrase:
        allowed = (error.headers or {}).get("Allow", "another method")
        message = f"{path}: got {request.method}, expected {allowed}"
    return JSONResponse({"message": message}, error.status_code, headers=error.headers)


async def _invalid_parameters(_: Request, error: Exception) -> Response:
    """Describe invalid parameters as configuration errors do: path, value, what was expected."""
    assert isinstance(error, RequestValidationError)
    items: list[Any] = [item | {"loc": item["loc"][1:]} for item in error.errors()]
    problems = map(problem, items)
    return JSONResponse({"message": "; ".join(map(str, problems))}, HTTPStatus.BAD_REQUEST)
