"""Tokens of service accounts: signed, of limited validity, and of an account that exists."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.wire import Request, Response, Stream
from koordpy.lib.clock import FakeClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


class Cluster:
    """An API server that is called without a network."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.server = ApiServer(clock=self.clock)

    async def call(self, method: str, path: str, document: dict[str, object]) -> dict[str, Any]:
        headers = {b"content-type": b"application/json"}
        answer = self.server.handle(Request(method, path.encode(), headers, msgspec.json.encode(document)))
        found = answer if isinstance(answer, Response | Stream) else await answer
        assert isinstance(found, Response)
        return msgspec.json.decode(found.body, type=dict[str, Any])

    async def token(self) -> str:
        await self.server.load()
        await self.call("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
        answer = await self.call("POST", f"{ACCOUNTS}/robot/token", {"spec": {"expirationSeconds": 600}})
        return str(answer["status"]["token"])

    async def is_valid(self, token: str) -> bool:
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        answer = await self.call("POST", path, {"spec": {"token": token}})
        return bool(answer["status"].get("authenticated"))


def test_token_ends_with_its_time() -> None:
    async def check() -> None:
        cluster = Cluster()
        token = await cluster.token()
        cluster.clock.advance(599)
        assert await cluster.is_valid(token)
        cluster.clock.advance(1)
        assert not await cluster.is_valid(token)

    asyncio.run(check())


def test_token_ends_with_its_account() -> None:
    async def check() -> None:
        cluster = Cluster()
        token = await cluster.token()
        await cluster.call("DELETE", f"{ACCOUNTS}/robot", {})
        await cluster.call("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
        assert not await cluster.is_valid(token)

    asyncio.run(check())


@pytest.mark.parametrize("change", ["x{}", "{}x", "{}.x", ""])
def test_changed_token_is_not_valid(change: str) -> None:
    async def check() -> None:
        cluster = Cluster()
        assert not await cluster.is_valid(change.format(await cluster.token()) or "a.b.c")

    asyncio.run(check())


def test_token_of_another_server_is_not_valid() -> None:
    async def check() -> None:
        assert not await Cluster().is_valid(await Cluster().token())

    asyncio.run(check())
