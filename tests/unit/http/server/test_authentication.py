import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.http.server.authentication import CACHE_SECONDS, Authenticated
from koordpy.lib.clock import FakeClock
from tests.servers.raw import Exchange, RawServer

TOKENS = {
    "alices-token": {"username": "alice", "uid": "1", "groups": ["dev"], "extra": {"scopes": ["x"]}},
    "bobs-token": {"username": "bob"},
}


async def inner(scope: Any, receive: Any, send: Any) -> None:
    """The protected application."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"inside"})


class World:
    """An API server with two users, one of whom may read /configz, and the application that it protects."""

    def __init__(self) -> None:
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.reviews: list[dict[str, Any]] = []
        self.server = RawServer(self._answer)
        self.refusal = 0
        self.http: httpx.AsyncClient

    async def _answer(self, exchange: Exchange) -> None:
        review = json.loads(exchange.request.body)
        self.reviews.append(review)
        if self.refusal:
            status = {"kind": "Status", "code": self.refusal, "reason": "Forbidden", "message": "no"}
            await exchange.reply(self.refusal, json.dumps(status).encode())
            return
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            user = TOKENS.get(spec["token"])
            review["status"] = {"authenticated": True, "user": user} if user else {"error": "unknown"}
        else:
            attributes = spec["nonResourceAttributes"]
            allowed = spec["user"] == "alice" and attributes == {"path": "/configz", "verb": "get"}
            review["status"] = {"allowed": allowed}
        await exchange.reply(201, json.dumps(review).encode())

    async def get(self, path: str = "/configz", token: str | None = None, **headers: str) -> httpx.Response:
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        return await self.http.get(path, headers=headers)


@asynccontextmanager
async def running() -> AsyncIterator[World]:
    world = World()
    async with world.server as server:

        async def no_pause(_: float) -> None:
            return None

        client = Client(Connection.to(Access(server.url)), attempts=1, sleep=no_pause)
        app = Authenticated(inner, client, world.clock)
        world.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://debug")
        try:
            yield world
        finally:
            await world.http.aclose()
            await client.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with running() as made:
        yield made


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Basic YWxpY2U6eA==", "alices-token"])
async def test_without_a_bearer_token_the_api_server_is_not_called(world: World, authorization: str) -> None:
    answer = await world.get(authorization=authorization)
    assert (answer.status_code, answer.text) == (401, "a bearer token is needed\n")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert world.reviews == []


async def test_an_unknown_token_is_rejected(world: World) -> None:
    answer = await world.get(token="guessed")
    assert (answer.status_code, answer.text) == (401, "the token is not accepted\n")
    assert [review["kind"] for review in world.reviews] == ["TokenReview"]


async def test_an_authorized_user_is_passed_on_and_reviewed_with_all_user_fields(world: World) -> None:
    answer = await world.get(token="alices-token")
    assert (answer.status_code, answer.text) == (200, "inside")
    assert world.reviews[1]["spec"] == {
        "user": "alice",
        "uid": "1",
        "groups": ["dev"],
        "extra": {"scopes": ["x"]},
        "nonResourceAttributes": {"path": "/configz", "verb": "get"},
    }


async def test_a_forbidden_request_names_user_verb_and_path(world: World) -> None:
    answer = await world.get(token="bobs-token")
    assert (answer.status_code, answer.text) == (403, "bob may not get /configz\n")
    answer = await world.get("/metrics", token="alices-token")
    assert (answer.status_code, answer.text) == (403, "alice may not get /metrics\n")


async def test_methods_are_kubernetes_verbs(world: World) -> None:
    headers = {"authorization": "Bearer alices-token"}
    assert (await world.http.head("/configz", headers=headers)).status_code == 200
    answer = await world.http.delete("/configz", headers=headers)
    assert (answer.status_code, answer.text) == (403, "alice may not delete /configz\n")


async def test_the_scheme_is_read_in_any_case(world: World) -> None:
    assert (await world.get(authorization="bearer alices-token")).status_code == 200


async def test_answers_are_kept_for_a_while_and_for_that_path_and_token_only(world: World) -> None:
    for _ in range(3):
        assert (await world.get(token="alices-token")).status_code == 200
        assert (await world.get(token="guessed")).status_code == 401
    assert len(world.reviews) == 3
    assert (await world.get("/metrics", token="alices-token")).status_code == 403
    assert len(world.reviews) == 5
    world.clock.advance(CACHE_SECONDS + 1)
    TOKENS["alices-token"], withdrawn = {}, TOKENS["alices-token"]
    try:
        assert (await world.get(token="alices-token")).status_code == 401
    finally:
        TOKENS["alices-token"] = withdrawn


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/readyz/ping", "/livez?verbose"])
async def test_health_is_open(world: World, path: str) -> None:
    assert (await world.get(path)).status_code == 200
    assert world.reviews == []


@pytest.mark.parametrize("path", ["/livezz", "/readyz-of-mine", "/", "/x/livez", "//livez", "/openapi.json"])
async def test_paths_that_only_resemble_health_checks_are_protected(world: World, path: str) -> None:
    assert (await world.get(path)).status_code == 401


async def test_an_api_server_that_refuses_the_review_is_a_503_that_is_not_kept(world: World) -> None:
    world.refusal = 403
    answer = await world.get(token="alices-token")
    assert (answer.status_code, answer.text) == (503, "not authorized: the API server answered Forbidden\n")
    world.refusal = 0
    assert (await world.get(token="alices-token")).status_code == 200


async def test_an_api_server_that_is_away_is_a_503(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running() as world:
        await world.server.__aexit__()
        answer = await world.get(token="alices-token")
        assert (answer.status_code, answer.text) == (503, "not authorized: the API server does not answer\n")
    assert "alices-token" not in caplog.text


async def test_tokens_are_neither_logged_nor_kept(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for token in ("alices-token", "bobs-token", "guessed"):
        answer = await world.get(token=token)
        assert token not in answer.text
    assert not any(token in caplog.text for token in ("alices-token", "bobs-token", "guessed"))


async def test_tokens_with_odd_bytes_are_just_wrong(world: World) -> None:
    for token in (b"\xff\xfe", b"a" * 20_000, b'"}', b"a b"):
        answer = await world.http.get("/configz", headers={b"authorization": b"Bearer " + token})
        assert answer.status_code == 401


async def test_invalid_tokens_cost_a_bounded_number_of_reviews_and_hinder_no_known_token(
    world: World,
) -> None:
    assert (await world.get(token="alices-token")).status_code == 200
    world.reviews.clear()
    answers = [await world.get(token=f"guess-{number}") for number in range(200)]
    assert {answer.status_code for answer in answers} == {401, 429}
    assert len(world.reviews) <= 20
    assert answers[-1].text == "too many tokens are being reviewed; try again later\n"
    world.clock.advance(CACHE_SECONDS - 1)
    assert (await world.get(token="alices-token")).status_code == 200
    assert (await world.get("/nowhere", token="alices-token")).status_code == 403


async def test_a_known_token_is_reviewed_again_however_many_others_come(world: World) -> None:
    assert (await world.get(token="alices-token")).status_code == 200
    world.clock.advance(CACHE_SECONDS + 1)
    for number in range(50):
        await world.get(token=f"guess-{number}")
    assert (await world.get(token="alices-token")).status_code == 200


async def test_unknown_tokens_are_reviewed_again_after_a_while(world: World) -> None:
    for number in range(50):
        await world.get(token=f"guess-{number}")
    assert (await world.get(token="alices-token")).status_code == 429
    world.clock.advance(1)
    assert (await world.get(token="alices-token")).status_code == 200


async def test_a_refused_token_is_reviewed_once_for_all_paths(world: World) -> None:
    for path in ("/configz", "/metrics", "/x"):
        assert (await world.get(path, token="guess")).status_code == 401
    assert len(world.reviews) == 1


async def test_a_long_token_is_not_reviewed(world: World) -> None:
    assert (await world.get(token="x" * 20_000)).status_code == 401
    assert world.reviews == []
