import asyncio
import contextlib
import json

import httpx
import pytest

from koordpy.http.server.application import Application
from koordpy.http.server.asgi import TEXT
from koordpy.http.server.direct import DRAINED, Direct, Reply
from koordpy.http.server.listener import Listener
from tests.eventually import PATIENCE


class Echo(Direct):
    """Returns the body; some bodies make it wait or fail."""

    max_body = 1000

    def __init__(self):
        self.may_answer = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.afterwards = []

    def not_allowed(self, method):
        return Reply(405, b"post", TEXT)

    def respond(self, headers, body, gone):
        if body == b"break":
            raise RuntimeError("planned")
        if body == b"slow":
            return self._slowly()
        if body == b"wait":
            return self._until(gone)
        if body == b"break later":
            return self._break()
        return Reply(200, b"got " + body, TEXT, lambda: self.afterwards.append(body))

    def too_large(self):
        return Reply(413, b"too large", TEXT)

    async def _slowly(self):
        await self.may_answer.wait()
        return Reply(200, b"at last", TEXT)

    async def _until(self, gone):
        await gone()
        self.hung_up.set()
        return

    async def _break(self):
        raise RuntimeError("planned")


@contextlib.asynccontextmanager
async def serving(echo, is_ready=lambda: True):
    listener = Listener("test", Application("test", [], {"/echo": echo}, is_ready), host="127.0.0.1", port=0)
    await listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await listener.stop()


def request(body, *, method="POST", path="/echo", length=None, headers=b"", version=b"1.1"):
    length = len(body) if length is None else length
    line = f"{method} {path} HTTP/".encode() + version
    return line + b"\r\nhost: x\r\n" + headers + b"content-length: %d\r\n\r\n" % length + body


async def answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    return int(head.split()[1]), fields, await reader.readexactly(int(fields[b"content-length"]))


async def test_a_connection_serves_one_request_after_the_other():
    echo = Echo()
    async with serving(echo) as (reader, writer):
        for body in (b"one", b"two", b""):
            writer.write(request(body))
            status, fields, text = await answer(reader)
            assert (status, text) == (200, b"got " + body)
            assert b"connection" not in fields
    assert echo.afterwards == [b"one", b"two", b""]


async def test_a_body_in_pieces_is_put_together():
    async with serving(Echo()) as (reader, writer):
        writer.write(request(b"ab", length=4))
        await asyncio.sleep(0.01)
        writer.write(b"cd")
        assert (await answer(reader))[2] == b"got abcd"
        head = b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
        assert (await answer(reader))[2] == b"got abc"


async def test_requests_that_do_not_wait_for_answers_are_answered_in_their_order():
    echo = Echo()
    async with serving(echo) as (reader, writer):
        writer.write(request(b"slow") + request(b"next") + request(b"last"))
        await asyncio.sleep(0.01)
        echo.may_answer.set()
        texts = [(await answer(reader))[2] for _ in range(3)]
    assert texts == [b"at last", b"got next", b"got last"]


@pytest.mark.parametrize("body", [b"break", b"break later"])
async def test_what_an_endpoint_raises_is_a_500_without_internals_and_the_connection_goes_on(body):
    async with serving(Echo()) as (reader, writer):
        writer.write(request(body))
        status, _, text = await answer(reader)
        assert status == 500
        assert b"planned" not in text
        writer.write(request(b"again"))
        assert (await answer(reader))[0] == 200


@pytest.mark.parametrize("head", [{"version": b"1.0"}, {"headers": b"connection: close\r\n"}])
async def test_a_caller_that_wants_to_close_is_closed(head):
    async with serving(Echo()) as (reader, writer):
        writer.write(request(b"bye", **head))
        _, fields, text = await answer(reader)
        assert fields[b"connection"] == b"close"
        assert text == b"got bye"
        assert await reader.read() == b""


async def test_a_body_beyond_the_limit_is_refused_when_it_has_been_read():
    async with serving(Echo()) as (reader, writer):
        writer.write(request(b"x" * 1001))
        assert (await answer(reader))[0] == 413
        writer.write(request(b"ok"))
        assert (await answer(reader))[0] == 200


async def test_a_body_that_is_announced_far_beyond_the_limit_is_not_waited_for():
    async with serving(Echo()) as (reader, writer):
        writer.write(request(b"", length=1000 + DRAINED + 1))
        status, fields, _ = await answer(reader)
        assert (status, fields[b"connection"]) == (413, b"close")
        assert await reader.read() == b""


async def test_a_body_without_an_end_is_refused():
    async with serving(Echo()) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        chunk = b"%x\r\n" % (1 << 20) + b"x" * (1 << 20) + b"\r\n"
        with contextlib.suppress(ConnectionError):
            for _ in range(18):
                writer.write(chunk)
                await writer.drain()
        assert (await answer(reader))[0] == 413


async def test_a_disconnect_while_waiting_is_noticed():
    echo = Echo()
    async with serving(echo) as (_, writer):
        writer.write(request(b"wait"))
        await asyncio.sleep(0.01)
        writer.close()
        async with asyncio.timeout(PATIENCE):
            await echo.hung_up.wait()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_other_methods_are_not_allowed(method):
    async with serving(Echo()) as (reader, writer):
        writer.write(request(b"body", method=method))
        status, fields, _ = await answer(reader)
        assert (status, fields[b"allow"]) == (405, b"POST")
        writer.write(request(b"again"))
        assert (await answer(reader))[0] == 200


async def test_under_any_server_it_is_an_asgi_application():
    echo = Echo()
    transport = httpx.ASGITransport(echo)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.post("/", content=b"body")).text == "got body"
        await asyncio.sleep(0)
        assert echo.afterwards == [b"body"]
        assert (await client.post("/", content=b"break")).status_code == 500
        assert (await client.post("/", content=b"x" * 1001)).status_code == 413


async def test_until_the_cluster_is_known_the_answer_is_503():
    ready = False
    async with serving(Echo(), lambda: ready) as (reader, writer):
        writer.write(request(b"early"))
        assert (await answer(reader))[0] == 503
        ready = True
        writer.write(request(b"late"))
        assert (await answer(reader))[0] == 200


async def test_other_paths_are_answered_by_the_framework_on_the_same_connection():
    async with serving(Echo()) as (reader, writer):
        writer.write(request(b"", method="GET", path="/openapi.json"))
        status, _, text = await answer(reader)
        assert (status, json.loads(text)["info"]["title"]) == (200, "test")
        writer.write(request(b"again"))
        assert (await answer(reader))[0] == 200
        writer.write(request(b"go", headers=b"expect: 100-continue\r\n"))
        assert b"100 Continue" in await reader.readuntil(b"\r\n\r\n")
        assert (await answer(reader))[2] == b"got go"
