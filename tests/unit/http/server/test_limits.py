"""The limits of a connection, on a transport controlled by the test."""

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from koordpy.http.server.asgi import TEXT
from koordpy.http.server.direct import Direct, Gone, Headers, Reply
from koordpy.http.server.limits import BodyMemory, LimitedProtocol, Limits

HEAD = b"POST /d HTTP/1.1\r\nhost: t\r\ncontent-length: %d\r\n\r\n"
CHUNKED = b"POST /d HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n"


class Pipe(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = b""
        self.unread = 0
        self.closing = self.aborted = False

    def write(self, data: Any) -> None:
        assert not self.closing
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Echo(Direct):
    max_body = 100

    def not_allowed(self, method: str) -> Reply:
        return Reply(405, b"", TEXT)

    def respond(self, headers: Headers, body: bytes, gone: Gone) -> Reply:
        return Reply(200, body)

    def too_large(self) -> Reply:
        return Reply(413, b"too large")


class App:
    endpoint = Echo()

    def direct_endpoint(self, path: str) -> Direct | None:
        return self.endpoint if path == "/d" else None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body", False):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


class Connection:
    def __init__(self, limits: Limits | None = None, memory: BodyMemory | None = None) -> None:
        self.pipe = Pipe()
        self.memory = memory or BodyMemory()
        self.protocol = LimitedProtocol(
            config=uvicorn.Config(App(), lifespan="off", log_config=None, proxy_headers=False),
            server_state=ServerState(),
            app_state={},
            limits=limits or Limits(),
            memory=self.memory,
        )
        self.protocol.connection_made(self.pipe)

    def send(self, data: bytes) -> bytes:
        """Hand bytes to the protocol; return what it wrote."""
        before = len(self.pipe.written)
        self.protocol.data_received(data)
        return self.pipe.written[before:]

    def after(self, seconds: float) -> None:
        """Check the deadlines, so many seconds from now."""
        self.protocol.check(asyncio.get_running_loop().time() + seconds)

    @property
    def answer(self) -> bytes:
        return self.pipe.written


async def test_a_caller_that_sends_nothing_is_disconnected_after_the_idle_time():
    connection = Connection()
    connection.after(74)
    assert not connection.pipe.closing
    connection.after(76)
    assert connection.pipe.closing
    assert connection.answer == b""


async def test_a_kept_open_connection_is_idle_again_after_each_answer():
    connection = Connection(Limits(idle=5, head=1, body=1))
    for _ in range(3):
        assert b"hello" in connection.send(HEAD % 5 + b"hello")
        connection.after(4)
        assert not connection.pipe.closing
    connection.after(6)
    assert connection.pipe.closing


@pytest.mark.parametrize(
    ("sent", "what"),
    [(b"POST /d", b"header fields"), (HEAD % 5, b"body"), (HEAD % 5 + b"hell", b"body"), (CHUNKED, b"body")],
)
async def test_a_slow_request_is_answered_408(sent, what):
    connection = Connection(Limits(idle=75, head=10, body=10))
    connection.send(sent)
    connection.after(9)
    assert connection.answer == b""
    connection.after(11)
    assert connection.answer.startswith(b"HTTP/1.1 408 ")
    assert b"the " + what + b" did not arrive in time" in connection.answer
    assert connection.pipe.closing


async def test_a_slow_body_for_an_application_is_answered_408_once():
    connection = Connection()
    connection.send(b"POST /other HTTP/1.1\r\nhost: t\r\ncontent-length: 5\r\n\r\nhe")
    await asyncio.sleep(0)
    connection.after(31)
    assert connection.answer.startswith(b"HTTP/1.1 408 ")
    for _ in range(5):
        await asyncio.sleep(0)
    assert connection.answer.count(b"HTTP/1.1") == 1


async def test_bytes_one_by_one_do_not_extend_the_time():
    connection = Connection(Limits(head=10))
    connection.send(b"POST /d HTTP/1.1\r\nx: ")
    for _ in range(100):
        connection.send(b"y")
    connection.after(11)
    assert connection.answer.startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("line", [b"x: y\r\n" * 11_000, b"x: " + b"y" * 66_000])
async def test_endless_header_fields_are_answered_431(line):
    connection = Connection()
    connection.send(b"POST /d HTTP/1.1\r\n")
    connection.send(line)
    assert connection.answer.startswith(b"HTTP/1.1 431 ")
    assert connection.pipe.closing


async def test_endless_trailers_are_cut_off_and_never_kept():
    connection = Connection()
    connection.send(CHUNKED + b"1\r\nx\r\n0\r\n")
    for _ in range(100):
        connection.send(b"x: " + b"y" * 3_000 + b"\r\n")
        if connection.pipe.closing:
            break
    assert connection.answer.startswith(b"HTTP/1.1 400 ")
    assert len(connection.protocol.headers) == 2


async def test_a_body_of_single_bytes_takes_the_memory_of_its_bytes():
    connection = Connection()
    connection.send(CHUNKED)
    for _ in range(50):
        connection.send(b"1\r\nx\r\n")
    cycle: Any = connection.protocol.cycle
    [held] = cycle.chunks
    assert held == b"x" * 50
    assert connection.memory.held == 50
    assert connection.send(b"0\r\n\r\n").endswith(b"\r\n\r\n" + b"x" * 50)
    assert connection.memory.held == 0


async def test_bodies_beyond_what_may_be_held_are_answered_503():
    limits, memory = Limits(bodies=2), BodyMemory()
    half_sent = [Connection(limits, memory) for _ in range(3)]
    for connection in half_sent[:2]:
        connection.send(HEAD % 100 + b"x" * 99)
    assert b"HTTP/1.1 200" in Connection(limits, memory).send(HEAD % 2 + b"xx")
    assert half_sent[2].send(HEAD % 100 + b"x" * 99).startswith(b"HTTP/1.1 503 ")
    assert half_sent[2].pipe.closing
    for connection in half_sent[:2]:
        assert b"HTTP/1.1 200" in connection.send(b"x")
    assert memory.held == 0


async def test_a_lost_connection_gives_back_what_it_held():
    connection = Connection()
    connection.send(HEAD % 100 + b"x" * 99)
    assert connection.memory.held == 99
    connection.protocol.connection_lost(ConnectionResetError())
    assert connection.memory.held == 0


async def test_a_body_over_the_limit_is_answered_and_holds_nothing():
    connection = Connection()
    connection.send(HEAD % 200 + b"x" * 150)
    assert connection.memory.held == 0
    assert b"413" in connection.send(b"x" * 50)
    assert b"HTTP/1.1 200" in connection.send(HEAD % 2 + b"xx")


async def test_a_caller_that_does_not_read_is_cut_off():
    connection = Connection()
    connection.send(HEAD % 5 + b"hello")
    connection.protocol.pause_writing()
    connection.after(29)
    assert not connection.pipe.aborted
    connection.protocol.resume_writing()
    connection.after(40)
    assert not connection.pipe.aborted
    connection.protocol.pause_writing()
    connection.after(31)
    assert connection.pipe.aborted


async def test_a_caller_that_does_not_close_is_cut_off_once_it_got_everything():
    connection = Connection()
    connection.send(b"POST /d HTTP/1.0\r\ncontent-length: 0\r\n\r\n")
    assert connection.pipe.closing
    connection.pipe.unread = 10
    connection.after(20)
    connection.after(25)
    assert not connection.pipe.aborted
    connection.pipe.unread = 0
    connection.after(26)
    connection.after(28)
    assert connection.pipe.aborted


async def test_pipelined_requests_are_answered_in_order():
    connection = Connection()
    other = b"GET /other HTTP/1.1\r\nhost: t\r\n\r\n"
    connection.send(other + HEAD % 5 + b"hello" + other)
    for _ in range(10):
        await asyncio.sleep(0)
    assert connection.answer.count(b"HTTP/1.1 200") == 3
    connection.after(76)
    assert connection.pipe.closing


async def test_many_pipelined_requests_in_one_piece_are_no_large_header():
    connection = Connection()
    request = HEAD % 100 + b"x" * 100
    many = request * 2000
    connection.send(many[:-150])
    for _ in range(1000):  # they are answered in turns
        await asyncio.sleep(0)
    assert connection.answer.count(b"HTTP/1.1 200") == 1999
    connection.send(many[-150:-120])
    assert not connection.pipe.closing
    connection.send(many[-120:])
    assert connection.answer.count(b"HTTP/1.1 200") == 2000
