"""Acceptors on real sockets, and their bounds."""

import asyncio
import socket
from collections.abc import Callable

from koordpy.http.server.acceptor import Acceptor
from tests.eventually import PATIENCE


class Side(asyncio.Protocol):
    def __init__(self, open_: set["Side"]) -> None:
        self.open = open_

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open.discard(self)


class Accepting:
    def __init__(self, listening: socket.socket, *, limit: int = 1000) -> None:
        self.open: set[Side] = set()
        self.acceptor = Acceptor(
            listening, lambda: Side(self.open), connections=self.open.__len__, limit=limit
        )

    async def stop(self) -> None:
        self.acceptor.close()
        await self.acceptor.wait_closed()
        for side in self.open:
            side.transport.close()


def bound() -> socket.socket:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    return listening


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.002)


async def callers(listening: socket.socket, count: int) -> list[asyncio.StreamWriter]:
    address = listening.getsockname()
    pairs = await asyncio.gather(*(asyncio.open_connection(*address) for _ in range(count)))
    return [writer for _, writer in pairs]


async def test_connections_beyond_the_limit_wait_until_others_are_closed():
    with bound() as listening:
        server = Accepting(listening, limit=3)
        server.acceptor.start(64)
        writers = await callers(listening, 5)
        await until(lambda: len(server.open) == 3)
        await asyncio.sleep(0.05)
        assert len(server.open) == 3
        for writer in writers[:2]:
            writer.close()
        await until(lambda: len(server.open) == 3)
        for writer in writers:
            writer.close()
        await until(lambda: not server.open)
        await server.stop()


async def test_a_closed_acceptor_takes_no_connection():
    with bound() as listening:
        server = Accepting(listening)
        server.acceptor.start(64)
        await server.stop()
        writers = await callers(listening, 1)
        await asyncio.sleep(0.02)
        assert not server.open
        writers[0].close()
