"""What HTTP alone costs: a FastAPI route and a plain ASGI endpoint that read a body and answer fixed bytes.

`python -m bench.floor PORT CERT_DIR BYTES` serves `/fastapi` and `/asgi` over TLS behind the same listener as
koordpy, with answers of BYTES bytes.
"""

import asyncio
import sys
from pathlib import Path

import uvloop
from fastapi import APIRouter, Request, Response

from koordpy.http.server.application import Application
from koordpy.http.server.asgi import ASGIApp, Receive, Scope, Send
from koordpy.http.server.listener import Listener


def router(answer: bytes) -> APIRouter:
    """Return the FastAPI route."""
    routes = APIRouter()

    @routes.post("/fastapi")
    async def floor(request: Request) -> Response:
        await request.body()
        return Response(answer, media_type="application/json")

    return routes


def endpoint(answer: bytes) -> ASGIApp:
    """Return the plain endpoint."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]

    async def floor(_: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body", False):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    return floor


async def serve(port: int, cert_dir: Path, size: int) -> None:
    """Serve until the process ends."""
    answer = b'{"response":"' + b"x" * (size - 15) + b'"}'
    app = Application("floor", [router(answer)], {"/asgi": endpoint(answer)})
    await Listener("floor", app, host="127.0.0.1", port=port, cert_dir=cert_dir).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
