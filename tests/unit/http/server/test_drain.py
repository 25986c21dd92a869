"""A draining listener answers everything, with `connection: close` on each response."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from koordpy.http.server.application import Application
from koordpy.http.server.asgi import TEXT, Receive, Scope, Send, send_answer
from koordpy.http.server.direct import Direct, Gone, Headers, Reply
from koordpy.http.server.listener import Listener


class Held:
    """An endpoint that answers when it is let go."""

    def __init__(self) -> None:
        self.began, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.set()
        await self.go_on.wait()
        await send_answer(send, 200, b"late", TEXT)


class Echo(Direct):
    """A direct endpoint."""

    max_body = 10

    def not_allowed(self, method: str) -> Reply:
        return Reply(405, b"", TEXT)

    def respond(self, headers: Headers, body: bytes, gone: Gone) -> Reply:
        return Reply(200, body, TEXT)

    def too_large(self) -> Reply:
        return Reply(413, b"", TEXT)


async def plain(scope: Scope, receive: Receive, send: Send) -> None:
    await send_answer(send, 200, b"plain", TEXT)


@asynccontextmanager
async def listening(held: Held) -> AsyncIterator[Listener]:
    app = Application("test", [], {"/plain": plain, "/direct": Echo(), "/held": held})
    listener = Listener("test", app, host="127.0.0.1", port=0)
    await listener.start()
    try:
        yield listener
    finally:
        held.go_on.set()
        await listener.stop()


class Caller:
    """A connection on which requests are written by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, listener: Listener) -> "Caller":
        return cls(*await asyncio.open_connection("127.0.0.1", listener.port))

    async def send(self, path: str) -> None:
        self._writer.write(f"POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: 2\r\n\r\nhi".encode())
        await self._writer.drain()

    async def answer(self) -> tuple[bytes, bytes]:
        """Return head (in lower case) and body; both empty when the connection was closed instead."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        except asyncio.IncompleteReadError:
            return b"", b""
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        return head, await self._reader.readexactly(length)

    async def is_closed(self) -> bool:
        return await self._reader.read() == b""

    def close(self) -> None:
        self._writer.close()


@pytest.mark.parametrize(("path", "body"), [("/plain", b"plain"), ("/direct", b"hi")])
async def test_connections_last_until_the_listener_drains(path: str, body: bytes) -> None:
    async with listening(Held()) as listener:
        caller = await Caller.to(listener)
        for _ in range(2):
            await caller.send(path)
            head, answer = await caller.answer()
            assert answer == body
            assert b"connection: close" not in head
        listener.drain()
        await caller.send(path)
        head, answer = await caller.answer()
        assert answer == body
        assert head.count(b"connection: close") == 1
        assert await caller.is_closed()
        caller.close()


async def test_new_connections_are_still_served_after_that() -> None:
    async with listening(Held()) as listener:
        listener.drain()
        assert listener.is_listening
        caller = await Caller.to(listener)
        await caller.send("/plain")
        head, body = await caller.answer()
        assert (body, b"connection: close" in head) == (b"plain", True)
        caller.close()


async def test_requests_in_flight_are_answered_before_the_end() -> None:
    held = Held()
    async with listening(held) as listener:
        caller = await Caller.to(listener)
        await caller.send("/held")
        await held.began.wait()
        stopping = asyncio.create_task(listener.stop())
        await asyncio.sleep(0)
        held.go_on.set()
        _, body = await caller.answer()
        assert body == b"late"
        await stopping
        caller.close()


@pytest.mark.parametrize("path", ["/plain", "/direct"])
async def test_a_connection_that_brings_its_first_request_at_the_end_is_answered(path: str) -> None:
    async with listening(Held()) as listener:
        served = await Caller.to(listener)
        await served.send("/plain")
        await served.answer()
        fresh = await Caller.to(listener)
        while len(listener._server.server_state.connections) < 2:
            await asyncio.sleep(0.001)
        stopping = asyncio.create_task(listener.stop())
        assert await served.is_closed()
        await fresh.send(path)
        head, body = await fresh.answer()
        assert body in (b"plain", b"hi")
        assert b"connection: close" in head
        await stopping
        served.close()
        fresh.close()
