"""The limits of a connection, on a transport controlled by the test."""

import asyncio
from math import inf
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from koordpy.http.server.asgi import TEXT
from koordpy.http.server.direct import Direct, Gone, Headers, Reply
from koordpy.http.server.limits import LimitedProtocol, Limits
from koordpy.http.server.memory import Memory

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

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
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


class Large(Echo):
    max_body = 100_000


class App:
    endpoint, large = Echo(), Large()

    def direct_endpoint(self, path: str) -> Direct | None:
        return self.endpoint if path == "/d" else self.large if path == "/large" else None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body", False):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


class Connection:
    def __init__(self, limits: Limits | None = None, memory: Memory | None = None) -> None:
        self.pipe = Pipe()
        self.memory = memory or Memory()
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

    async def settle(self) -> None:
        """Let everything that can be answered be answered."""
        written = -1
        while written != len(self.pipe.written):
            written = len(self.pipe.written)
            for _ in range(8):
                await asyncio.sleep(0)

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


async def test_the_oldest_unfinished_requests_go_if_too_much_is_held():
    memory = Memory(limit=250)
    unfinished = [Connection(memory=memory) for _ in range(3)]
    for connection in unfinished:
        await asyncio.sleep(0.001)  # they begin one after the other
        connection.send(HEAD % 100 + b"x" * 90)
    assert unfinished[0].answer.startswith(b"HTTP/1.1 503 ")
    assert unfinished[0].pipe.closing
    for connection in unfinished[1:]:
        assert b"HTTP/1.1 200" in connection.send(b"x" * 10)
    assert memory.held == 0


KINDS = {
    "direct": b"POST /d HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n\r\n",
    "expect": b"POST /d HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n",
    "percent": b"POST /%64 HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n\r\n",
    "absolute": b"POST http://t/d HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n\r\n",
    "other path": b"POST /other HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n\r\n",
    "other method": b"GET /other HTTP/1.1\r\nhost: t\r\ncontent-length: 100\r\n\r\n",
    "HTTP/1.0": b"POST /d HTTP/1.0\r\nhost: t\r\ncontent-length: 100\r\n\r\n",
    "chunked": b"POST /d HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n64\r\n",
    "chunked, other path": b"POST /other HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n64\r\n",
}


@pytest.mark.parametrize("head", KINDS.values(), ids=KINDS.keys())
async def test_every_byte_of_an_unfinished_body_counts(head):
    connection = Connection()
    connection.send(head)
    for part in range(9):
        await asyncio.sleep(0)
        connection.send(b"x" * 10)
        assert connection.memory.held == 10 * (part + 1)
    connection.protocol.connection_lost(None)
    assert connection.memory.held == 0


async def test_unfinished_header_fields_count():
    connection = Connection()
    connection.send(b"POST /d HTTP/1.1\r\nx: ")
    connection.send(b"y" * 5000)
    assert connection.memory.held >= 5000
    connection.send(b"\r\nhost: t\r\n\r\n")
    assert connection.memory.held == 0


async def test_pipelined_bytes_behind_an_unanswered_request_count():
    connection = Connection()
    connection.send(b"POST /other HTTP/1.1\r\nhost: t\r\ncontent-length: 0\r\n\r\n")
    connection.send(HEAD % 100 + b"x" * 900)
    assert connection.memory.held >= 900
    await connection.settle()
    assert connection.answer.count(b"HTTP/1.1 200") == 2


async def test_responses_that_are_not_read_count_and_stop_further_answers():
    connection = Connection()
    connection.pipe.unread = 70_000
    connection.protocol.pause_writing()
    assert connection.memory.held == 70_000
    assert connection.send(HEAD % 5 + b"hello") == b""
    connection.pipe.unread = 0
    connection.protocol.resume_writing()
    await connection.settle()
    assert connection.answer.startswith(b"HTTP/1.1 200")
    assert connection.memory.held == 0


async def test_a_caller_that_does_not_read_goes_if_too_much_is_held():
    memory = Memory(limit=1000)
    slow, other = Connection(memory=memory), Connection(memory=memory)
    slow.send(HEAD % 5 + b"hello")
    slow.pipe.unread = 900
    slow.protocol.pause_writing()
    await asyncio.sleep(0.001)
    other.send(HEAD % 100 + b"x" * 99)
    other.send(b"x")
    memory.charge(200)
    assert slow.pipe.aborted
    assert not other.pipe.closing
    assert memory.held == 200


async def test_large_bodies_are_refused_while_too_much_is_worked_on():
    memory = Memory(limit=1000)
    memory.charge(2000)
    connection = Connection(memory=memory)
    assert b"HTTP/1.1 200" in connection.send(HEAD % 5 + b"hello")
    large = b"POST /large HTTP/1.1\r\nhost: t\r\ncontent-length: 70000\r\n\r\n" + b"x" * 70_000
    assert connection.send(large).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("path", [b"/other", b"/nothing"])
async def test_a_body_for_an_application_is_limited(path):
    connection = Connection(Limits(body_bytes=1000))
    connection.send(b"POST %b HTTP/1.1\r\nhost: t\r\ncontent-length: 5000\r\n\r\n" % path)
    assert connection.send(b"x" * 2000).startswith(b"HTTP/1.1 413 ")
    assert connection.pipe.closing
    assert connection.memory.held == 0


async def test_too_many_header_fields_are_answered_431():
    connection = Connection()
    connection.send(b"POST /d HTTP/1.1\r\n" + b"a:b\r\n" * 300)
    assert connection.answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "framing",
    [b"1;" + b"x" * 7000 + b"\r\ny\r\n", b"0\r\n" + b"x: " + b"y" * 200_000],
    ids=["chunk", "trailer"],
)
async def test_a_body_of_framing_is_cut_off(framing):
    connection = Connection()
    connection.send(CHUNKED + b"64\r\n" + b"x" * 100 + b"\r\n")
    for _ in range(100):
        if not connection.pipe.closing:
            connection.send(framing)
    assert connection.answer.startswith(b"HTTP/1.1 400 ")


async def test_an_upgrade_is_answered_without_one_and_ends_the_connection():
    connection = Connection()
    fields = b"host: t\r\nconnection: upgrade\r\nupgrade: h2c\r\n"
    connection.send(b"GET /other HTTP/1.1\r\n" + fields + b"\r\n" + b"x" * 1000)
    connection.send(b"x" * 10_000)
    await connection.settle()
    assert connection.answer.startswith(b"HTTP/1.1 200 ")
    assert connection.pipe.closing
    assert connection.memory.held == 0


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 64])
async def test_requests_in_pieces_of_any_size_are_answered(size):
    connection = Connection()
    chunked = CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"
    many = (HEAD % 5 + b"hello" + b"GET /other HTTP/1.1\r\nhost: t\r\n\r\n" + chunked + b"\r\n") * 3
    for start in range(0, len(many), size):
        connection.send(many[start : start + size])
        await connection.settle()
    assert connection.answer.count(b"HTTP/1.1 200") == 9
    assert connection.memory.held == 0


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
    await connection.settle()
    assert connection.answer.count(b"HTTP/1.1 200") == 1999
    connection.send(many[-150:-120])
    assert not connection.pipe.closing
    connection.send(many[-120:])
    assert connection.answer.count(b"HTTP/1.1 200") == 2000


async def test_connections_without_a_request_make_way_first_then_idle_ones():
    silent, idle, unfinished = Connection(), Connection(), Connection()
    idle.send(HEAD % 5 + b"hello")
    unfinished.send(HEAD % 5 + b"hello" + HEAD % 5)
    await unfinished.settle()
    connections = sorted([unfinished, idle, silent], key=lambda each: each.protocol.precedence)
    assert connections == [silent, idle, unfinished]


async def test_a_connection_that_is_being_answered_never_makes_way():
    connection = Connection()
    connection.send(b"GET /other HTTP/1.1\r\nhost: t\r\n\r\n")
    assert connection.protocol.precedence[1] == inf
