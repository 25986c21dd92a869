"""One engine behind several HTTP servers, to compare what the servers cost.

`python -m bench.direct_servers PART API_SERVER CERT_DIR PORT PORT PORT PORT` has the `extender` or the
webhooks (`admission`) of koordpy in one process, and answers on the ports, in this order: as koordpy does
(the direct path); by a plain ASGI application behind koordpy's listener; by that application behind uvicorn;
by routes of FastAPI behind uvicorn. Webhooks speak TLS.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from fastapi import FastAPI, Request, Response
from starlette.background import BackgroundTask

from koordpy.compose.process import Process
from koordpy.http.server.application import Application
from koordpy.http.server.asgi import ASGIApp, Receive, Scope, Send, send_answer
from koordpy.http.server.direct import Direct, Reply
from koordpy.http.server.listener import Listener
from koordpy.lib import certificates
from koordpy.lib.certificates import SERVER_CERT, SERVER_KEY
from koordpy.lib.garbage import begin_listing
from koordpy.main import tune_memory
from koordpy.settings import Settings, load

WAYS = ("direct", "asgi", "uvicorn", "fastapi")
"""The servers, in the order of their ports."""


def asgi_app(hot: Mapping[str, ASGIApp]) -> ASGIApp:
    """Return an ASGI application that does nothing but choose the endpoint by its path."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = hot.get(scope["path"])
        if endpoint is None:
            await send_answer(send, 404, b"")
        else:
            await endpoint(scope, receive, send)

    return application


def fastapi_app(hot: Mapping[str, Direct]) -> FastAPI:
    """Return routes as one writes them with FastAPI: the body in, a response out."""
    app = FastAPI()

    def add(path: str, endpoint: Direct) -> None:
        async def call(request: Request) -> Response:
            body = await request.body()
            answer = endpoint.respond(request.headers.raw, body, _gone)
            reply = answer if isinstance(answer, Reply) else await answer
            assert reply is not None
            after = None if reply.after is None else BackgroundTask(reply.after)
            return Response(reply.body, reply.status, media_type="application/json", background=after)

        app.add_api_route(path, call, methods=["POST"])

    for path, endpoint in hot.items():
        add(path, endpoint)
    return app


async def _gone() -> None:
    await asyncio.Event().wait()


class _Uvicorn(uvicorn.Server):
    """uvicorn as it is, in an event loop that it does not own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve_with_uvicorn(app: Any, port: int, cert_dir: Path | None) -> asyncio.Task[None]:
    tls: dict[str, Any] = {}
    if cert_dir is not None:
        tls = {"ssl_certfile": cert_dir / SERVER_CERT, "ssl_keyfile": cert_dir / SERVER_KEY}
    config = uvicorn.Config(
        app,
        port=port,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        **tls,
    )
    server = _Uvicorn(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    return serving


def _settings(part: str, api_server: str, cert_dir: Path) -> Settings:
    return load(
        None,
        {
            "parts": [part],
            "client": {"server": api_server},
            "admission": {"certDir": str(cert_dir), "port": 0},
            "extender": {"leaderElect": False, "port": 0},
        },
    )


async def serve(part: str, api_server: str, cert_dir: Path, ports: list[int]) -> None:
    """Serve until the process ends."""
    process = Process(_settings(part, api_server, cert_dir), [part], listens=False)
    begin_listing()
    await process.start()
    hot: dict[str, Direct] = {
        path: endpoint for path, endpoint in process.routes[part].hot.items() if isinstance(endpoint, Direct)
    }
    folder = None if part == "extender" else cert_dir
    if folder is not None:
        certificates.ensure(folder, ["127.0.0.1"], datetime.now(UTC))
    tune_memory()
    application = asgi_app(hot)
    ways = dict(zip(WAYS, ports, strict=True))
    serving = [
        await _serve_with_uvicorn(application, ways["uvicorn"], folder),
        await _serve_with_uvicorn(fastapi_app(hot), ways["fastapi"], folder),
    ]
    for name, app in (("asgi", application), ("direct", Application("direct", [], hot))):
        await Listener(name, app, host="127.0.0.1", port=ways[name], cert_dir=folder).start()
    await asyncio.gather(*serving)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]), [int(port) for port in sys.argv[4:]]))
