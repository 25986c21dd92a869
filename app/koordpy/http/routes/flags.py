"""`/debug/flags`: what is logged, set by `PUT /debug/flags/NAME` with the value as body.

Paths, statuses and texts are Koordinator's (`pkg/util/routes/flags.go`).
"""

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from koordpy.http.server.asgi import Header
from koordpy.scheduling.interface.debug_flags import BadFlag, DebugFlags

MAX_BODY: Final = 4096
"""Bytes of a value."""

_METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_NO_SNIFF: Final[Header] = (b"x-content-type-options", b"nosniff")


def router(flags: DebugFlags) -> APIRouter:
    """Return the routes."""
    routes = APIRouter()
    setters = flags.setters()

    async def index() -> HTMLResponse:
        return HTMLResponse(_INDEX % "".join(f"<tr>{name}<br>\n" for name in sorted(setters)))

    async def put(flag: str, request: Request) -> Response:
        setter = setters.get(flag)
        if setter is None:
            return await index()
        if request.method != "PUT":
            return _text(406, "unsupported http method")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                return _text(400, "error reading request body: it is too large")
        try:
            return _text(200, setter(body.decode()))
        except UnicodeDecodeError:
            return _text(400, "error reading request body: it is not UTF-8")
        except BadFlag as error:
            return _text(400, str(error))

    for path in ("/debug/flags", "/debug/flags/"):
        routes.add_api_route(path, index, methods=_METHODS, include_in_schema=False)
    routes.add_api_route("/debug/flags/{flag:path}", put, methods=_METHODS, include_in_schema=False)
    return routes


def _text(status: int, text: str) -> Response:
    response = Response(f"{text}\n", status)
    response.raw_headers += [(b"content-type", b"text/plain"), _NO_SNIFF]
    return response


_INDEX = """<html>
<head><title>/debug/flags/</title></head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
%s</table>
<br>
full flags configurable<br>
</body>
</html>
"""
