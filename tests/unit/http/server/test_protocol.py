import asyncio
import time

from koordpy.http.server.application import Application
from koordpy.http.server.asgi import TEXT
from koordpy.http.server.direct import Direct, Reply
from koordpy.http.server.listener import Listener


async def test_a_head_does_not_wait_for_a_body_that_takes_long():
    may_go_on = asyncio.Event()

    async def slow(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await may_go_on.wait()
        await send({"type": "http.response.body", "body": b"hi"})

    listener = Listener("slow", slow, host="127.0.0.1", port=0)
    await listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    may_go_on.set()
    assert await reader.readexactly(2) == b"hi"
    writer.close()
    await listener.stop()


class Busy(Direct):
    """Takes a millisecond for each request, and records them."""

    max_body = 1 << 20

    def __init__(self):
        self.bodies = []

    def not_allowed(self, method):
        return Reply(405, b"post", TEXT)

    def too_large(self):
        return Reply(413, b"too large", TEXT)

    def respond(self, headers, body, gone):
        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass
        self.bodies.append(body)
        return Reply(200, b"%d" % len(body), TEXT)


def post(body: bytes) -> bytes:
    return b"POST /busy HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def test_thousands_of_pipelined_requests_let_other_callers_take_their_turns():
    busy = Busy()
    listener = Listener(
        "busy", Application("busy", [], {"/busy": busy}, lambda: True), host="127.0.0.1", port=0
    )
    await listener.start()
    many_reader, many = await asyncio.open_connection("127.0.0.1", listener.port)
    reader, one = await asyncio.open_connection("127.0.0.1", listener.port)
    many.write(b"".join(post(b"x%d" % number) for number in range(3000)) + post(b"y" * 100_000))
    await many_reader.readuntil(b"200 OK")
    for _ in range(5):
        sent_at = len(busy.bodies)
        one.write(post(b"other"))
        await reader.readuntil(b"\r\n\r\n5")
        assert busy.bodies.index(b"other", sent_at) - sent_at < 150
    while len(busy.bodies) < 3006:
        await many_reader.read(1 << 16)
    assert [body for body in busy.bodies if body != b"other"] == [
        *(b"x%d" % number for number in range(3000)),
        b"y" * 100_000,
    ]
    for writer in (many, one):
        writer.close()
    await listener.stop()


async def test_pipelined_requests_wait_for_a_caller_that_does_not_read():
    class Large(Busy):
        def respond(self, headers, body, gone):
            self.bodies.append(body)
            return Reply(200, b"z" * 1_000_000, TEXT)

    large = Large()
    listener = Listener(
        "large", Application("large", [], {"/busy": large}, lambda: True), host="127.0.0.1", port=0
    )
    await listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 16)
    writer.write(b"".join(post(b"x") for _ in range(2000)))
    await asyncio.sleep(0.3)
    assert len(large.bodies) < 60  # the rest waits until answers have been read
    for _ in range(200):
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(1_000_000)
    assert len(large.bodies) >= 200
    writer.transport.abort()
    await listener.stop()


async def test_bodies_of_every_length_arrive_whole():
    class Whole(Busy):
        def respond(self, headers, body, gone):
            self.bodies.append(body)
            return Reply(200, b"ok", TEXT)

    whole = Whole()
    listener = Listener(
        "whole", Application("whole", [], {"/busy": whole}, lambda: True), host="127.0.0.1", port=0
    )
    await listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    sent = [bytes([length % 251]) * length for length in (*range(0, 9000, 97), 70_000, 300_000, 1_000_000)]
    for body in sent:
        writer.write(post(body))
        await reader.readuntil(b"\r\n\r\nok")
    writer.write(b"".join(map(post, sent)))
    for _ in sent:
        await reader.readuntil(b"\r\n\r\nok")
    assert whole.bodies == sent + sent
    writer.close()
    await listener.stop()
