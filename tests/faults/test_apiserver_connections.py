"""Clients that send too much, too slowly or not at all, and that do not read, cost the API server little."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from koordpy.embedded.apiserver import connections as bounds
from koordpy.embedded.apiserver.connections import Connections
from koordpy.embedded.apiserver.server import ApiServer
from tests.eventually import PATIENCE

MAPS = "/api/v1/namespaces/default/configmaps"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serving(**limits: float) -> AsyncIterator[tuple[ApiServer, Connections]]:
    async with ApiServer(limits=bounds.Limits(**limits)) as server:  # type: ignore[arg-type]
        yield server, server.connections


async def connect(server: ApiServer) -> Streams:
    return await asyncio.open_connection(server.host, server.port)


async def connect_without_reading(server: ApiServer) -> Streams:
    """Connect with the smallest receive buffer, so that the kernel holds little of what nobody reads."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (server.host, server.port))
    reader, writer = await asyncio.open_connection(sock=narrow)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return reader, writer


async def exchange(server: ApiServer, sent: bytes) -> tuple[int, str]:
    """Send bytes on a new connection; return the status and message of the first answer."""
    reader, writer = await connect(server)
    try:
        writer.write(sent)
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode()
        length = int(head.lower().partition("content-length:")[2].split()[0])
        body = (await reader.readexactly(length)).decode()
        return int(head.split()[1]), json.loads(body).get("message", "") if body.startswith("{") else body
    finally:
        writer.close()


def post(body: bytes, *fields: str, host: str = "localhost") -> bytes:
    lines = [f"POST {MAPS} HTTP/1.1", f"Host: {host}", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


OBJECT = b'{"metadata": {"name": "a"}}'
IS_JSON = "Content-Type: application/json"
LIMIT = 30_000_000


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        (
            post(OBJECT, IS_JSON, host="evil.example:8001"),
            403,
            "Host is 'evil.example:8001', expected localhost",
        ),
        (post(OBJECT, IS_JSON, "Origin: http://evil.example"), 403, "web pages of other hosts are refused"),
        (post(OBJECT, IS_JSON, "Host: localhost"), 403, "several Host"),
        (b"GET /version HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 403, "Host is 'rebound.example'"),
        (post(OBJECT, "Content-Type: text/plain"), 415, "application/json"),
        (post(OBJECT, "Content-Type: application/x-www-form-urlencoded"), 415, "application/json"),
        (post(OBJECT), 415, "application/json"),
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", 414, "the URL is longer than 32768 bytes"),
        (b"GET / HTTP/1.1\r\na: " + b"b" * 100_000, 431, "head is larger than 65536 bytes"),
        (b"GET / HTTP/1.1\r\n" + b"a" * 100_000, 431, "head is larger than 65536 bytes"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", 431, "more than 100 header fields"),
        (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: "
            + b"b" * 100_000,
            431,
            "head is larger than 65536 bytes",
        ),
        (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\nExpect: 100-continue\r\n\r\n",
            413,
            "limit is 3145728",
        ),
    ],
)
async def test_requests_that_are_refused(sent: bytes, status: int, message: str) -> None:
    async with serving() as (server, _):
        found = await exchange(server, sent)
        assert found[0] == status, found
        assert message in found[1]
        listed = await exchange(server, f"GET {MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert listed[0] == 200


async def fill(server: ApiServer, megabytes: int = 4) -> bytes:
    """Make lists of some megabytes; return the request of one."""
    body = json.dumps({"metadata": {"generateName": "m-"}, "data": {"a": "x" * 1_000_000}}).encode()
    for _ in range(megabytes):
        assert (await exchange(server, post(body, IS_JSON)))[0] == 201
    return f"GET {MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


async def test_a_connection_that_reads_nothing_gets_one_answer() -> None:
    async with serving() as (server, connections):
        listing = await fill(server)
        reader, writer = await connect(server)
        writer.write(listing * 60)
        await eventually(lambda: any(c.stuck_since is not None for c in connections))
        for _ in range(100):
            await asyncio.sleep(0)
        assert sum(c.unread for c in connections) < 5_000_000
        answers = 0
        while answers < 60:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split()[0]))
            answers += 1
        writer.close()


async def test_answers_that_are_not_read_are_bounded_in_total() -> None:
    async with serving(unread=LIMIT) as (server, connections):
        listing = await fill(server, 12)  # more than a kernel buffers for a connection
        clients = [await connect_without_reading(server) for _ in range(10)]
        for _, writer in clients:
            writer.write(listing * 2)
        await eventually(lambda: len(connections) < 4 and 0 < sum(c.unread for c in connections) <= LIMIT)


async def test_watches_that_are_not_read_are_bounded_in_total() -> None:
    async with serving(unread=LIMIT) as (server, connections):
        await fill(server, 12)
        clients = [await connect_without_reading(server) for _ in range(10)]
        for _, writer in clients:
            writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await eventually(lambda: len(connections) < 4 and 0 < sum(c.unread for c in connections) <= LIMIT)


async def test_unfinished_requests_are_bounded_in_total() -> None:
    async with serving(received=5_000_000) as (server, connections):
        for expect in ("Accept: */*", "Expect: 100-continue") * 5:
            _, writer = await connect(server)
            writer.write(post(b"x" * 2_000_000, IS_JSON, expect)[:-10])
            await writer.drain()
        await eventually(lambda: 0 < connections.received <= 5_000_000 and len(connections) <= 3)
        assert connections.received == sum(c.held for c in connections)
        assert (await exchange(server, post(OBJECT, IS_JSON)))[0] == 201


async def test_pipelined_requests_behind_a_watch_are_not_read() -> None:
    async with serving() as (server, connections):
        _, writer = await connect(server)
        writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        writer.write(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200_000)
        await eventually(lambda: connections.received > 0)
        await asyncio.sleep(0.1)
        assert connections.received < 1_000_000


async def test_a_new_connection_replaces_one_that_never_sent_a_request() -> None:
    async with serving(connections=20) as (server, connections):
        user = await connect(server)
        user[1].write(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await user[0].readuntil(b"\r\n\r\n")
        silent = [await connect(server) for _ in range(100)]
        assert (await exchange(server, post(OBJECT, IS_JSON)))[0] == 201
        assert len(connections) <= 20
        assert await silent[0][0].read() == b""
        user[1].write(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await user[0].readuntil(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "after"), [(b"GET / HT", 31.0), (post(OBJECT, IS_JSON)[:-1], 31.0), (b"", 601.0)]
)
async def test_connections_that_take_too_long_are_closed(sent: bytes, after: float) -> None:
    async with serving() as (server, connections):
        reader, writer = await connect(server)
        writer.write(sent)
        await eventually(lambda: [c.held > 0 for c in connections] == [bool(sent)])
        now = asyncio.get_running_loop().time()
        connections.sweep(now + after - 5)
        assert len(connections) == 1
        connections.sweep(now + after + 5)
        assert await asyncio.wait_for(reader.read(), 10) == b""


async def test_a_client_that_reads_nothing_for_a_minute_is_cut() -> None:
    async with serving() as (server, connections):
        listing = await fill(server, 12)
        _, writer = await connect_without_reading(server)
        writer.write(listing)
        await eventually(lambda: any(c.stuck_since is not None for c in connections))
        connections.sweep(asyncio.get_running_loop().time() + 65)
        assert not [c for c in connections if c.stuck_since is not None]


async def test_small_requests_are_answered_between_large_lists() -> None:
    async with serving() as (server, _):
        for number in range(12):
            document = {"metadata": {"name": f"large-{number}"}, "data": {"text": "x" * 500_000}}
            assert (await exchange(server, post(json.dumps(document).encode(), IS_JSON)))[0] == 201
        order: list[str] = []

        async def list_all(number: int) -> None:
            reader, writer = await connect(server)
            writer.write(f"GET {MAPS} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            assert len(await reader.read()) > 6_000_000
            order.append("list")
            writer.close()

        async def check() -> None:
            await asyncio.sleep(0.05)  # all lists were requested by then
            assert (await exchange(server, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] == 200
            order.append("check")

        await asyncio.gather(*(list_all(number) for number in range(60)), check())
        assert order.index("check") < 55
