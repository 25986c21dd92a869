"""Webhook calls that are answered straight from the HTTP parser."""

import asyncio
import json
from typing import Any, ClassVar

import uvicorn
from uvicorn.server import ServerState

from koordpy.admission.chain import Chain
from koordpy.admission.handler import AsyncValidatingHandler, Handler, Request
from koordpy.http.routes.admission import webhooks
from koordpy.http.server.application import Application
from koordpy.http.server.limits import LimitedProtocol, Limits
from koordpy.http.server.memory import Memory
from tests.eventually import PATIENCE

REVIEW = json.dumps({"request": {"uid": "u", "operation": "CREATE", "object": {}}}).encode()


class Waits(AsyncValidatingHandler):
    """Waits until the test lets it go on."""

    name: ClassVar[str] = "Waits"
    path: ClassVar[str] = "/hook"

    def __init__(self) -> None:
        self.begun, self.go_on, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def validate(self, request: Request) -> None:
        self.begun.set()
        try:
            await self.go_on.wait()
        finally:
            self.ended.set()


class Pipe(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...


def connection(*handlers: Handler) -> tuple[LimitedProtocol, Pipe]:
    app = Application("test", [], webhooks({"/hook": Chain("/hook", handlers)}))
    config = uvicorn.Config(app, lifespan="off", log_config=None, proxy_headers=False)
    protocol = LimitedProtocol(
        config=config, server_state=ServerState(), app_state={}, limits=Limits(), memory=Memory()
    )
    pipe = Pipe()
    protocol.connection_made(pipe)
    return protocol, pipe


def call(target: str = "/hook", content_type: str | None = "application/json", method: str = "POST") -> bytes:
    header = "" if content_type is None else f"Content-Type: {content_type}\r\n"
    head = f"{method} {target} HTTP/1.1\r\nhost: t\r\n{header}content-length: {len(REVIEW)}\r\n\r\n"
    return head.encode("latin-1") + REVIEW


def response_in(written: bytes) -> dict[str, Any]:
    head, _, body = written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    response: dict[str, Any] = json.loads(body)["response"]
    return response


async def test_a_call_is_answered_before_anything_else_runs() -> None:
    protocol, pipe = connection()
    protocol.data_received(call())
    assert response_in(pipe.written) == {"uid": "u", "allowed": True, "status": {"code": 200}}


async def test_head_and_body_of_a_response_leave_in_one_write() -> None:
    protocol, pipe = connection()
    protocol.data_received(call())
    assert len(pipe.writes) == 1


async def test_the_timeout_that_the_api_server_adds_to_the_path_makes_no_difference() -> None:
    protocol, pipe = connection()
    protocol.data_received(call("/hook?timeout=10s"))
    assert response_in(pipe.written)["allowed"] is True


async def test_the_content_type_counts() -> None:
    for content_type, named in ((None, ""), ("text/plain", "text/plain"), ("\xff", "\xff")):
        protocol, pipe = connection()
        protocol.data_received(call(content_type=content_type))
        status = response_in(pipe.written)["status"]
        assert status == {"code": 400, "message": f"contentType={named}, expected application/json"}


async def test_other_methods_are_refused_with_the_one_that_is_allowed() -> None:
    protocol, pipe = connection()
    protocol.data_received(call(method="PUT"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert pipe.written.startswith(b"HTTP/1.1 405 ")
    assert b"allow: POST" in pipe.written


async def test_an_answer_waits_for_a_handler_that_waits() -> None:
    handler = Waits()
    protocol, pipe = connection(handler)
    protocol.data_received(call())
    await handler.begun.wait()
    assert pipe.written == b""
    handler.go_on.set()
    async with asyncio.timeout(PATIENCE):
        while not pipe.written:
            await asyncio.sleep(0)
    assert response_in(pipe.written)["allowed"] is True


async def test_a_handler_stops_waiting_when_the_caller_disconnects() -> None:
    handler = Waits()
    protocol, pipe = connection(handler)
    protocol.data_received(call())
    await handler.begun.wait()
    protocol.connection_lost(ConnectionResetError())
    async with asyncio.timeout(PATIENCE):
        await handler.ended.wait()
    assert pipe.written == b""
