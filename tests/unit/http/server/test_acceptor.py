"""Acceptors on real sockets, and their bounds."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime

from koordpy.http.server.acceptor import Acceptor
from koordpy.lib import certificates, server_tls
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


async def test_the_oldest_silent_connections_make_way_for_further_ones():
    with bound() as listening:
        server = Accepting(listening, limit=3)
        opened: dict[Side, float] = {}
        loop = asyncio.get_running_loop()

        def waiting():
            for side in server.open:
                yield (0, opened.setdefault(side, loop.time() - 1)), side.transport.close

        server.acceptor = Acceptor(
            listening,
            lambda: Side(server.open),
            connections=server.open.__len__,
            limit=3,
            waiting=waiting,
        )
        server.acceptor.start(64)
        silent = await callers(listening, 3)
        await until(lambda: len(server.open) == 3)
        first = set(server.open)
        [newcomer] = await callers(listening, 1)
        await until(lambda: bool(server.open - first))
        for writer in (*silent, newcomer):
            writer.close()
        await until(lambda: not server.open)
        await server.stop()


async def test_an_unfinished_handshake_makes_way_for_further_connections(tmp_path):
    certificates.ensure(tmp_path, ["127.0.0.1"], datetime.now(UTC))
    with bound() as listening:
        open_: set[Side] = set()
        acceptor = Acceptor(
            listening,
            lambda: Side(open_),
            connections=open_.__len__,
            limit=3,
            tls=server_tls.server_context(tmp_path),
        )
        acceptor.start(64)
        silent = await callers(listening, 3)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(*listening.getsockname(), ssl=context)
        await until(lambda: len(open_) == 1)
        for each in (*silent, writer):
            each.close()
        acceptor.close()
        await acceptor.wait_closed()
