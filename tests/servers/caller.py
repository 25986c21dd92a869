"""An HTTP client that sends exactly what a test says, down to the bytes and to when it stops sending."""

import asyncio
import ssl
from typing import Self

from tests.eventually import PATIENCE


class Answer:
    """A whole answer."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


class Caller:
    """One connection to a URL's host: `async with Caller(url) as caller:`."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self._host, _, port = url.split("://")[1].partition(":")
        self._port, self._tls = int(port), tls

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang_up()

    async def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def post(self, path: str, body: bytes, headers: str = "") -> Answer:
        """Send a POST and read its answer; `headers` are lines that end in CRLF."""
        await self.send(head(path, len(body), headers) + body)
        return await self.answer()

    async def answer(self, seconds: float = PATIENCE) -> Answer:
        """Read one answer."""
        async with asyncio.timeout(seconds):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines[1:])
            }
            if headers.get("transfer-encoding") == "chunked":
                return Answer(int(lines[0].split()[1]), headers, await self._chunks())
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
            return Answer(int(lines[0].split()[1]), headers, body)

    async def _chunks(self) -> bytes:
        parts = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return b"".join(parts)

    def hang_up(self) -> None:
        """Cut the connection without a word."""
        self._writer.transport.abort()

    async def is_closed(self, seconds: float = PATIENCE) -> bool:
        """Wait for the other side to close."""
        async with asyncio.timeout(seconds):
            try:
                return await self._reader.read(1) == b""
            except ConnectionError:
                return True


def head(path: str, length: int, headers: str = "") -> bytes:
    """Return the head of a POST with a body of so many bytes, JSON unless `headers` has another type."""
    if "content-type:" not in headers:
        headers += "content-type: application/json\r\n"
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n".encode()
