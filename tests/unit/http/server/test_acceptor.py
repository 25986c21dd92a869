"""Acceptors on real sockets: bounds, and how two of them share one."""

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


class Worker:
    def __init__(self, listening: socket.socket, *, limit: int = 1000, shared: bool = False) -> None:
        self.open: set[Side] = set()
        self.acceptor = Acceptor(
            listening, lambda: Side(self.open), connections=self.open.__len__, limit=limit, shared=shared
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


async def test_two_processes_on_one_socket_get_as_many_connections_each():
    with bound() as listening:
        workers = [Worker(listening.dup(), shared=True) for _ in range(2)]
        for worker in workers:
            worker.acceptor.start(64)
        writers = await callers(listening, 8)
        await until(lambda: sum(len(worker.open) for worker in workers) == 8)
        shares = sorted(len(worker.open) for worker in workers)
        for worker in workers:
            await worker.stop()
        for writer in writers:
            writer.close()
    assert shares[0] >= 3, shares


async def test_connections_beyond_the_limit_wait_until_others_are_closed():
    with bound() as listening:
        worker = Worker(listening, limit=3)
        worker.acceptor.start(64)
        writers = await callers(listening, 5)
        await until(lambda: len(worker.open) == 3)
        await asyncio.sleep(0.05)
        assert len(worker.open) == 3
        for writer in writers[:2]:
            writer.close()
        await until(lambda: len(worker.open) == 3)
        for writer in writers:
            writer.close()
        await until(lambda: not worker.open)
        await worker.stop()


async def test_a_closed_acceptor_takes_no_connection():
    with bound() as listening:
        worker = Worker(listening)
        worker.acceptor.start(64)
        await worker.stop()
        writers = await callers(listening, 1)
        await asyncio.sleep(0.02)
        assert not worker.open
        writers[0].close()
