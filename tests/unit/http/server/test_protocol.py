import asyncio

from koordpy.http.server.listener import Listener
from koordpy.http.server.protocol import JoiningTransport


class Wire(asyncio.Transport):
    def __init__(self):
        super().__init__()
        self.written, self.closed = [], False

    def write(self, data):
        self.written.append(data)

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True


async def test_two_writes_of_one_turn_leave_together():
    wire = Wire()
    transport = JoiningTransport(wire, asyncio.get_running_loop())
    transport.write(b"head")
    assert wire.written == []
    transport.write(b"body")
    assert wire.written == [b"headbody"]


async def test_a_single_write_leaves_in_the_next_turn():
    wire = Wire()
    transport = JoiningTransport(wire, asyncio.get_running_loop())
    transport.write(b"head")
    await asyncio.sleep(0)
    assert wire.written == [b"head"]


async def test_an_empty_body_lets_the_head_go():
    wire = Wire()
    transport = JoiningTransport(wire, asyncio.get_running_loop())
    transport.write(b"head")
    transport.write(b"")
    assert wire.written == [b"head"]


async def test_closing_writes_what_was_held_back_first():
    wire = Wire()
    transport = JoiningTransport(wire, asyncio.get_running_loop())
    transport.write(b"last words")
    transport.close()
    assert wire.written == [b"last words"]
    assert transport.is_closing()


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
