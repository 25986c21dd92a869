"""The HTTP client against correct and misbehaving servers."""

import asyncio
import gzip
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop

from koordpy.lib import certificates, server_tls
from koordpy.lib.http1 import (
    BadResponse,
    ConnectionLost,
    HttpClient,
    NotConnected,
    RequestTimeout,
    header_block,
)
from tests.servers.raw import Exchange, RawServer

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy.:DeprecationWarning")


@pytest.fixture(params=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """Transports of both event loops differ in details that a protocol meets."""
    return uvloop.EventLoopPolicy() if request.param == "uvloop" else asyncio.DefaultEventLoopPolicy()


async def echo(exchange: Exchange) -> None:
    request = exchange.request
    await exchange.reply(200, f"{request.method} {request.target} ".encode() + request.body, "x-a: 1\r\n")


async def test_request_returns_status_headers_and_body() -> None:
    async with RawServer(echo) as server, HttpClient(server.url + "/base") as client:
        response = await client.request("POST", "/p?q=1", headers={"x-b": "2"}, body=b"hello")
    assert (response.status, response.body) == (200, b"POST /base/p?q=1 hello")
    assert response.header("X-A") == "1"
    assert response.headers["x-a"] == "1"
    assert server.requests[0].headers["x-b"] == "2"
    assert server.requests[0].headers["host"] == server.url.removeprefix("http://")


async def test_connection_is_kept_open_between_requests() -> None:
    async with RawServer(echo) as server, HttpClient(server.url) as client:
        for _ in range(5):
            await client.request("GET", "/")
    assert server.connections == 1


async def test_no_more_connections_than_the_limit_are_opened() -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.001)
        await exchange.reply()

    async with RawServer(slow) as server, HttpClient(server.url, limit=3) as client:
        await asyncio.gather(*(client.request("GET", "/") for _ in range(20)))
    assert server.connections == 3
    assert len(server.requests) == 20


async def test_waiting_for_a_free_connection_ends_with_the_timeout() -> None:
    async def never(exchange: Exchange) -> None:
        await asyncio.sleep(600)

    async with RawServer(never) as server, HttpClient(server.url, limit=1) as client:
        first = asyncio.create_task(client.request("GET", "/"))
        await asyncio.sleep(0.01)
        with pytest.raises(RequestTimeout, match="all 1 are busy") as caught:
            await client.request("GET", "/", timeout=0.02)
        assert not caught.value.sent
        first.cancel()


async def test_timeout_closes_the_connection_and_frees_its_place() -> None:
    async def may_be_silent(exchange: Exchange) -> None:
        if exchange.request.target == "/silent":
            await asyncio.sleep(600)
        await exchange.reply(200, b"ok")

    async with RawServer(may_be_silent) as server, HttpClient(server.url, limit=1) as client:
        await client.request("GET", "/")
        with pytest.raises(RequestTimeout):
            await client.request("GET", "/silent", timeout=0.02)
        assert (await client.request("GET", "/")).body == b"ok"
    assert server.connections == 2


async def test_cancelled_request_leaves_no_answer_to_the_next_one() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def delayed(exchange: Exchange) -> None:
        asked.set()
        await go_on.wait()
        await exchange.reply(200, exchange.request.target.encode())

    async with RawServer(delayed) as server, HttpClient(server.url, limit=1) as client:
        task = asyncio.create_task(client.request("GET", "/first"))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        assert (await client.request("GET", "/second")).body == b"/second"


async def close_on_reuse(exchange: Exchange) -> None:
    if exchange.connection == 1 and exchange.request.target != "/warm":
        exchange.cut()
    else:
        await exchange.reply(200, b"ok")


async def test_get_is_sent_again_when_a_kept_open_connection_is_dead() -> None:
    async with RawServer(close_on_reuse) as server, HttpClient(server.url) as client:
        await client.request("GET", "/warm")
        assert (await client.request("GET", "/")).status == 200
    assert server.connections == 2


async def test_post_is_not_sent_again_unless_it_is_repeatable() -> None:
    async with RawServer(close_on_reuse) as server, HttpClient(server.url) as client:
        await client.request("GET", "/warm")
        with pytest.raises(ConnectionLost) as caught:
            await client.request("POST", "/")
        assert caught.value.sent
        assert not caught.value.answered
    async with RawServer(close_on_reuse) as server, HttpClient(server.url) as client:
        await client.request("GET", "/warm")
        assert (await client.request("POST", "/", repeatable=True)).status == 200


async def test_request_is_not_repeated_on_a_fresh_connection() -> None:
    async def cut(exchange: Exchange) -> None:
        exchange.cut()

    async with RawServer(cut) as server, HttpClient(server.url) as client:
        with pytest.raises(ConnectionLost):
            await client.request("GET", "/")
    assert len(server.requests) == 1


async def test_connection_that_the_server_closed_while_idle_is_not_used() -> None:
    async with RawServer(echo) as server, HttpClient(server.url) as client:
        await client.request("GET", "/")
        server.cut_all()
        await asyncio.sleep(0)  # the server closes now; the client has not noticed yet
        assert (await client.request("POST", "/", body=b"x")).status == 200
    assert server.connections == 2


async def test_response_cut_in_the_middle_is_an_error_and_is_not_repeated() -> None:
    async def cut_body(exchange: Exchange) -> None:
        if exchange.request.target == "/warm":
            await exchange.reply()
            return
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345")
        exchange.writer.close()
        exchange.closed = True

    async with RawServer(cut_body) as server, HttpClient(server.url) as client:
        await client.request("GET", "/warm")
        with pytest.raises(ConnectionLost) as caught:
            await client.request("GET", "/")
        assert caught.value.answered
    assert len(server.requests) == 2


async def test_chunked_and_unframed_bodies_are_read_to_their_end() -> None:
    async def either(exchange: Exchange) -> None:
        if exchange.request.target == "/chunked":
            await exchange.begin_chunks()
            for part in (b"ab", b"cd", b""):
                await exchange.chunk(part)
        else:
            await exchange.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nabcd")
            exchange.writer.close()
            exchange.closed = True

    async with RawServer(either) as server, HttpClient(server.url) as client:
        assert (await client.request("GET", "/chunked")).body == b"abcd"
        assert (await client.request("GET", "/unframed")).body == b"abcd"
        assert (await client.request("GET", "/chunked")).body == b"abcd"
    assert server.connections == 2


async def test_informational_responses_are_skipped() -> None:
    async def hinting(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        await exchange.reply(200, b"real")

    async with RawServer(hinting) as server, HttpClient(server.url) as client:
        response = await client.request("GET", "/")
    assert (response.status, response.body, response.header("link")) == (200, b"real", None)


async def test_head_has_no_body_whatever_its_length_says() -> None:
    async def head(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")

    async with RawServer(head) as server, HttpClient(server.url) as client:
        assert (await client.request("HEAD", "/", timeout=60)).body == b""


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "not an HTTP response"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999\r\n\r\n", "more than 1000"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, "more than 1000"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * (1 << 20) + b"\r\n\r\n", "bytes of headers"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200_000, "bytes of headers"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"e" * (1 << 20), "bytes of headers"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "not an HTTP response"),
        (b"HTTP/1.1 101 X\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", "upgrade the protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx", "content-encoding"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nxxxx", "gzip"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n"
            + gzip.compress(b"0" * 1_000_000),
            "more than 1000",
        ),
    ],
)
async def test_hostile_response_is_refused_and_the_connection_closed(answer: bytes, message: str) -> None:
    async def hostile(exchange: Exchange) -> None:
        await exchange.send(answer)
        await asyncio.sleep(600)

    async with RawServer(hostile) as server, HttpClient(server.url, max_body=1000) as client:
        with pytest.raises(BadResponse, match=message):
            await client.request("GET", "/", timeout=60, gzip=True)
        assert not client._all


async def test_second_response_to_one_request_is_never_taken_for_the_next() -> None:
    async def doubled(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1" * 2)

    async with RawServer(doubled) as server, HttpClient(server.url) as client:
        await client.request("GET", "/")
        await client.request("GET", "/")
    assert server.connections == 2


async def test_gzip_is_decompressed_on_request() -> None:
    async def compressed(exchange: Exchange) -> None:
        assert exchange.request.headers["accept-encoding"] == "gzip"
        await exchange.reply(200, gzip.compress(b"text" * 1000), "content-encoding: gzip\r\n")

    async with RawServer(compressed) as server, HttpClient(server.url) as client:
        assert (await client.request("GET", "/", gzip=True)).body == b"text" * 1000


async def test_stream_gives_chunks_as_they_come_and_its_connection_back_at_the_end() -> None:
    go_on = asyncio.Event()

    async def streaming(exchange: Exchange) -> None:
        await exchange.begin_chunks()
        await exchange.chunk(b"one\n")
        await go_on.wait()
        await exchange.chunk(b"two\n")
        await exchange.chunk(b"")

    async with RawServer(streaming) as server, HttpClient(server.url) as client:
        async with client.stream("GET", "/watch") as response:
            assert response.status == 200
            assert await response.read(5) == b"one\n"
            with pytest.raises(RequestTimeout):
                await response.read(0.01)
            go_on.set()
            assert [data async for data in response] == [b"two\n"]
        async with client.stream("GET", "/watch") as response:
            assert await response.read_all(100) == b"one\ntwo\n"
    assert server.connections == 1


async def test_stream_left_early_closes_its_connection() -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.begin_chunks()
        while True:
            await exchange.chunk(b"x")
            await asyncio.sleep(0.001)

    async with RawServer(endless) as server, HttpClient(server.url) as client:
        async with client.stream("GET", "/") as response:
            await response.read()
        assert not client._all


async def test_stream_that_breaks_off_gives_what_came_and_then_the_error() -> None:
    async def cut(exchange: Exchange) -> None:
        await exchange.begin_chunks()
        await exchange.chunk(b"last words")
        exchange.writer.close()
        exchange.closed = True

    async with (
        RawServer(cut) as server,
        HttpClient(server.url) as client,
        client.stream("GET", "/") as response,
    ):
        assert await response.read() == b"last words"
        with pytest.raises(ConnectionLost):
            await response.read()


async def test_slow_reader_of_a_stream_makes_the_server_wait() -> None:
    sent = 0

    async def firehose(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin_chunks()
        for _ in range(64):
            await exchange.chunk(b"x" * (1 << 20))
            sent += 1 << 20
        await exchange.chunk(b"")

    async with (
        RawServer(firehose) as server,
        HttpClient(server.url) as client,
        client.stream("GET", "/") as response,
    ):
        await asyncio.sleep(0.2)
        assert sent < 32 << 20
        size = 0
        async for data in response:
            size += len(data)
    assert size == 64 << 20


async def test_requests_with_control_characters_are_never_sent() -> None:
    async with RawServer(echo) as server, HttpClient(server.url) as client:
        with pytest.raises(ValueError, match="not a request line"):
            await client.request("GET", "/a b")
        with pytest.raises(ValueError, match="not a request line"):
            await client.request("GET", "/a\r\nx: y")
        with pytest.raises(ValueError, match="not a header: 'authorization'") as caught:
            header_block({"authorization": "secret\r\nx: y"})
    assert "secret" not in str(caught.value)
    assert not server.requests


async def test_refused_connection_says_that_nothing_was_sent() -> None:
    async with RawServer(echo) as server:
        url = server.url
    async with HttpClient(url) as client:
        with pytest.raises(NotConnected, match=r"127\.0\.0\.1") as caught:
            await client.request("GET", "/")
    assert not caught.value.sent


async def test_closed_client_fails_what_is_in_flight_and_what_comes_later() -> None:
    asked = asyncio.Event()

    async def never(exchange: Exchange) -> None:
        asked.set()
        await asyncio.sleep(600)

    async with RawServer(never) as server:
        client = HttpClient(server.url)
        task = asyncio.create_task(client.request("GET", "/"))
        await asked.wait()
        await client.close()
        with pytest.raises(ConnectionLost, match="client was closed"):
            await task
        with pytest.raises(NotConnected, match="client was closed"):
            await client.request("GET", "/")


@pytest.fixture
def tls_pair(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Server context, and a client context that trusts it."""
    certificates.ensure(tmp_path, ["127.0.0.1", "api.example"], datetime.now(UTC) - timedelta(days=1))
    trusting = ssl.create_default_context(cadata=certificates.ca_bundle(tmp_path).decode())
    return server_tls.server_context(tmp_path), trusting


async def test_tls_verifies_the_server_and_can_expect_another_name(
    tls_pair: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    serving, trusting = tls_pair
    async with RawServer(echo, tls=serving) as server:
        async with HttpClient(server.url, tls=trusting) as client:
            assert (await client.request("GET", "/")).status == 200
            assert (await client.request("GET", "/")).status == 200
        assert server.connections == 1
        async with HttpClient(server.url, tls=trusting, server_hostname="api.example") as client:
            assert (await client.request("GET", "/")).status == 200
        async with HttpClient(server.url, tls=trusting, server_hostname="other.example") as client:
            with pytest.raises(NotConnected, match="certificate"):
                await client.request("GET", "/")
        async with HttpClient(server.url) as client:
            with pytest.raises(NotConnected, match="certificate"):
                await client.request("GET", "/")


async def test_proxy_tunnels_tls_with_its_credentials(
    tls_pair: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    serving, trusting = tls_pair
    heads: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        host, port = heads[-1].split(b" ")[1].decode().split(":")
        back_reader, back_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                sink.write(data)
            sink.close()

        await asyncio.gather(pump(reader, back_writer), pump(back_reader, writer))

    proxy_server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = proxy_server.sockets[0].getsockname()[1]
    async with RawServer(echo, tls=serving) as server, proxy_server:
        through = f"http://me:s3cret@127.0.0.1:{port}"
        async with HttpClient(server.url, tls=trusting, proxy=through) as client:
            assert (await client.request("POST", "/x", body=b"y")).body == b"POST /x y"
            assert "s3cret" not in repr(client)
    assert b"proxy-authorization: Basic bWU6czNjcmV0" in heads[0]


async def test_proxy_gets_whole_urls_over_plain_http() -> None:
    async with RawServer(echo) as proxy, HttpClient("http://svc.example/base", proxy=proxy.url) as client:
        await client.request("GET", "/x")
    assert proxy.requests[0].target == "http://svc.example/base/x"
    assert proxy.requests[0].headers["host"] == "svc.example"


async def test_proxy_that_refuses_is_named_in_the_error() -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(403)

    async with RawServer(refuse) as proxy, HttpClient("https://svc.example", proxy=proxy.url) as client:
        with pytest.raises(NotConnected, match=r"answered CONNECT svc\.example:443 with .*403"):
            await client.request("GET", "/")
