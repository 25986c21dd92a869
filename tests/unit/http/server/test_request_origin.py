"""Requests of web pages, on a real socket: refused on every path, whichever code would serve it."""

import asyncio

import pytest

from koordpy.http.server.asgi import TEXT
from koordpy.http.server.direct import Direct, Gone, Headers, Reply
from koordpy.http.server.listener import Listener
from koordpy.lib.request_origin import names_for

LOCAL = names_for("127.0.0.1", ["debug.example"])


class Counting(Direct):
    max_body = 100

    def __init__(self) -> None:
        self.calls = 0

    def not_allowed(self, method: str) -> Reply:
        self.calls += 1
        return Reply(405, b"", TEXT)

    def respond(self, headers: Headers, body: bytes, gone: Gone) -> Reply:
        self.calls += 1
        return Reply(200, body)

    def too_large(self) -> Reply:
        return Reply(413, b"too large")


class App:
    def __init__(self) -> None:
        self.endpoint = Counting()

    def direct_endpoint(self, path: str) -> Direct | None:
        return self.endpoint if path == "/d" else None

    async def __call__(self, scope, receive, send):
        await self.endpoint(scope, receive, send)


async def call(hosts, request: bytes) -> tuple[bytes, int]:
    """Send a request; return the response, and how often the application was called."""
    app = App()
    listener = Listener("test", app, host="127.0.0.1", port=0, hosts=hosts)
    await listener.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(request)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer, app.endpoint.calls
    finally:
        await listener.stop()


def request(line: str, *fields: str, body: bytes = b"") -> bytes:
    head = "\r\n".join([f"{line} HTTP/1.1", *fields, f"content-length: {len(body)}", "connection: close"])
    return head.encode() + b"\r\n\r\n" + body


LINES = [
    "POST /d",
    "POST /%64",
    "POST /d?x=1",
    "GET /d",
    "DELETE /d",
    "OPTIONS /d",
    "POST http://localhost/d",
]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    "fields",
    [
        ["host: evil.example"],
        ["host: localhost", "origin: http://evil.example", "content-type: text/plain"],
        ["host: localhost", "origin: null"],
        ["host: localhost", "sec-fetch-site: cross-site"],
        ["host: evil.example", "expect: 100-continue"],
        ["host: localhost", "host: evil.example"],
        [],
    ],
)
async def test_a_request_of_a_web_page_is_refused_on_every_path(line, fields):
    answer, calls = await call(LOCAL, request(line, *fields, body=b"{}"))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert calls == 0


@pytest.mark.parametrize("line", LINES)
async def test_a_request_of_another_client_is_answered(line):
    answer, calls = await call(LOCAL, request(line, "host: debug.example:80", body=b"{}"))
    assert not answer.startswith(b"HTTP/1.1 403 ")
    assert calls == 1


async def test_a_refused_request_ends_its_connection():
    page = request("POST /d", "host: localhost", "origin: http://evil.example", body=b"{}")
    answer, calls = await call(LOCAL, page + request("POST /d", "host: localhost", body=b"{}"))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer
    assert calls == 0


async def test_any_host_but_no_foreign_origin_is_accepted_where_names_are_unknown():
    answer, _ = await call(None, request("POST /d", "host: koordpy.koordinator-system.svc", body=b"{}"))
    assert answer.startswith(b"HTTP/1.1 200 ")
    answer, calls = await call(None, request("POST /d", "host: a.svc", "origin: http://b.svc", body=b"{}"))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert calls == 0
