import asyncio
import json
from collections.abc import AsyncIterator
from typing import ClassVar

import httpx
import pytest

from koordpy.admission.chain import Chain
from koordpy.admission.handler import AsyncValidatingHandler, Request
from koordpy.admission.review import MAX_BODY
from koordpy.http.routes.admission import webhooks
from koordpy.http.server.application import Application
from koordpy.http.server.asgi import Message

APP = Application("test", [], webhooks({"/mutate-pod": Chain("/mutate-pod", [])}))
REVIEW = json.dumps({"request": {"uid": "u"}}).encode()
REVIEW_OF_POD = json.dumps({"request": {"uid": "u", "operation": "CREATE", "object": {}}}).encode()
JSON = {"content-type": "application/json"}


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(APP), base_url="http://test") as client:
        yield client


async def test_review_is_answered(client: httpx.AsyncClient) -> None:
    answer = await client.post("/mutate-pod", content=REVIEW, headers=JSON)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["response"] == {"uid": "u", "allowed": True, "status": {"code": 200}}


async def test_body_in_pieces_is_put_together(client: httpx.AsyncClient) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for byte in REVIEW:
            yield bytes([byte])

    answer = await client.post("/mutate-pod", content=pieces(), headers=JSON)
    assert answer.json()["response"]["allowed"]


async def test_missing_content_type_is_named(client: httpx.AsyncClient) -> None:
    answer = await client.post("/mutate-pod", content=REVIEW)
    assert answer.status_code == 200
    assert answer.json()["response"]["status"]["message"] == "contentType=, expected application/json"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods_are_not_allowed(client: httpx.AsyncClient, method: str) -> None:
    answer = await client.request(method, "/mutate-pod")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_path_without_a_chain_is_not_found(client: httpx.AsyncClient) -> None:
    answer = await client.post("/validate-pod", content=REVIEW, headers=JSON)
    assert answer.status_code == 404
    assert answer.json()["message"].startswith("there is no /validate-pod; ")


@pytest.mark.parametrize("piece", [1 << 20, MAX_BODY + 1])
async def test_too_large_body_is_refused_in_a_review(client: httpx.AsyncClient, piece: int) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY // piece + 1):
            yield b" " * piece

    answer = await client.post("/mutate-pod", content=pieces(), headers=JSON)
    assert answer.status_code == 200
    assert answer.json()["response"]["status"]["code"] == 413


async def responses_to(*received: dict[str, object]) -> list[dict[str, object]]:
    """Play messages to the application; return what it sent."""
    messages = iter(received)
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return next(messages)

    async def send(message: object) -> None:
        sent.append(dict(message))  # type: ignore[call-overload]

    scope = {
        "type": "http",
        "path": "/mutate-pod",
        "method": "POST",
        "headers": [],
    }
    await APP(scope, receive, send)
    return sent


async def test_half_sent_body_is_dropped() -> None:
    sent = await responses_to(
        {"type": "http.request", "body": REVIEW[:5], "more_body": True}, {"type": "http.disconnect"}
    )
    assert sent == []


async def test_endless_body_is_cut_off() -> None:
    chunk = {"type": "http.request", "body": b" " * MAX_BODY, "more_body": True}
    sent = await responses_to(*[chunk] * 5)
    assert (b"connection", b"close") in sent[0]["headers"]  # type: ignore[operator]
    assert b'"code":413' in sent[1]["body"]  # type: ignore[operator]


class Waits(AsyncValidatingHandler):
    """Waits until the test lets it go on."""

    name: ClassVar[str] = "Waits"
    path: ClassVar[str] = "/waits"

    def __init__(self) -> None:
        self.begun, self.go_on, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def validate(self, request: Request) -> None:
        self.begun.set()
        try:
            await self.go_on.wait()
        finally:
            self.ended.set()


async def test_answer_waits_for_a_handler_that_waits() -> None:
    handler = Waits()
    transport = httpx.ASGITransport(webhooks({"/waits": Chain("/waits", [handler])})["/waits"])
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        asking = asyncio.create_task(client.post("/waits", content=REVIEW_OF_POD, headers=JSON))
        await handler.begun.wait()
        assert not asking.done()
        handler.go_on.set()
        assert (await asking).json()["response"] == {"uid": "u", "allowed": True, "status": {"code": 200}}


async def test_handler_stops_waiting_when_the_client_goes_away() -> None:
    handler = Waits()
    messages: asyncio.Queue[Message] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": REVIEW_OF_POD})
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "path": "/waits", "method": "POST", "headers": headers}
    app = webhooks({"/waits": Chain("/waits", [handler])})["/waits"]
    serving = asyncio.ensure_future(app(scope, messages.get, send))
    await handler.begun.wait()
    messages.put_nowait({"type": "http.disconnect"})
    await serving
    await handler.ended.wait()
    assert sent == []


async def test_shutdown_stops_a_handler_that_waits() -> None:
    handler = Waits()
    transport = httpx.ASGITransport(webhooks({"/waits": Chain("/waits", [handler])})["/waits"])
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        asking = asyncio.create_task(client.post("/waits", content=REVIEW_OF_POD, headers=JSON))
        await handler.begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await handler.ended.wait()
