"""An HTTP server that does exactly what a test says, down to the bytes and to when it hangs up."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True)
class Request:
    """What came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Exchange:
    """One request and the connection on which to answer it."""

    request: Request
    writer: asyncio.StreamWriter
    connection: int
    closed: bool = False

    async def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, status: int = 200, body: bytes = b"", headers: str = "") -> None:
        """Write a whole response; `headers` are lines that end in CRLF."""
        await self.send(
            f"HTTP/1.1 {status} X\r\n{headers}content-length: {len(body)}\r\n\r\n".encode() + body
        )

    async def begin_chunks(self, status: int = 200, headers: str = "") -> None:
        """Write the head of a chunked response."""
        await self.send(f"HTTP/1.1 {status} X\r\n{headers}transfer-encoding: chunked\r\n\r\n".encode())

    async def chunk(self, data: bytes) -> None:
        """Write a chunk; an empty one ends the response."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def cut(self) -> None:
        """Hang up without a word."""
        self.closed = True
        self.writer.transport.abort()


Handler = Callable[[Exchange], Awaitable[None]]


@dataclass
class RawServer:
    """`async with RawServer(handler) as server:`; the handler is called for every request."""

    handler: Handler
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut_all(self) -> None:
        """Hang up on every connection."""
        for writer in list(self._writers.values()):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        self._writers[number] = writer
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *rest = head.split("\r\n")
                method, target, _ = line.split(" ")
                headers = {k.lower(): v.strip() for k, _, v in (h.partition(":") for h in rest if h)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Request(method, target, headers, body)
                self.requests.append(request)
                exchange = Exchange(request, writer, number)
                await self.handler(exchange)
                if exchange.closed:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.pop(number, None)
            writer.close()
