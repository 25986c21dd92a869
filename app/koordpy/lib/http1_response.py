"""Results of a request: a response, a response that is still arriving, or an error."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

STREAM_BUFFER = 1 << 20
"""A stream stops reading from the network while its reader is this many bytes behind."""


class HttpError(Exception):
    """A request without a (complete) response. `sent`: whether the server may have received it."""

    sent = True


class NotConnected(HttpError):
    """No connection could be made; the request was not sent."""

    sent = False


class ConnectionLost(HttpError):
    """The connection broke. `answered`: whether part of a response had arrived."""

    def __init__(self, message: str, *, answered: bool) -> None:
        super().__init__(message)
        self.answered = answered


class RequestTimeout(HttpError, TimeoutError):
    """No complete response in time."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class BadResponse(HttpError):
    """The response is not HTTP, or larger than accepted."""


class Response:
    """Status, headers and body of a response."""

    __slots__ = ("body", "raw_headers", "status")

    def __init__(self, status: int, raw_headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status, self.raw_headers, self.body = status, raw_headers, body

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.status}, {len(self.body)} bytes>"

    def header(self, name: str) -> str | None:
        """Return the first header of that name (any case), or None."""
        return find_header(self.raw_headers, name.lower().encode("latin-1"))

    @property
    def headers(self) -> dict[str, str]:
        """All headers by lower-case name; of repeated ones the last."""
        return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self.raw_headers}


class Resumable(Protocol):
    """The connection of a stream."""

    def resume(self) -> None:
        """Resume reading from the network."""
        ...


class StreamingResponse:
    """A response whose body is read as it arrives. `status` and `header` are as in Response."""

    def __init__(self, connection: "Resumable", status: int, raw_headers: list[tuple[bytes, bytes]]) -> None:
        self.status, self.raw_headers = status, raw_headers
        self._connection = connection
        self._chunks: list[bytes] = []
        self._size = 0
        self._ended = False
        self._error: HttpError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<StreamingResponse {self.status}>"

    def header(self, name: str) -> str | None:
        """Return the first header of that name (any case), or None."""
        return find_header(self.raw_headers, name.lower().encode("latin-1"))

    async def read(self, timeout: float | None = None) -> bytes:
        """Return the bytes that have arrived since the last call, waiting for the first; b"" at the end.

        Raises RequestTimeout when nothing arrives in time (the stream can still be read afterwards),
        ConnectionLost or BadResponse when the body is cut off; bytes from before are returned first.
        """
        if not self._chunks and not self._ended:
            await self._wait(timeout)
        if self._chunks:
            data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._chunks.clear()
            self._size = 0
            self._connection.resume()
            return data
        if self._error is not None:
            raise self._error
        return b""

    async def read_all(self, limit: int, timeout: float | None = None) -> bytes:
        """Return the rest of the body, at most `limit` bytes of it."""
        parts: list[bytes] = []
        size = 0
        while size < limit and (data := await self.read(timeout)):
            parts.append(data)
            size += len(data)
        return b"".join(parts)[:limit]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def _wait(self, timeout: float | None) -> None:
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, _expire, waiter, timeout)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def feed(self, data: bytes) -> bool:
        """Add body bytes; return whether the reader is too far behind."""
        self._chunks.append(data)
        self._size += len(data)
        self._wake()
        return self._size > STREAM_BUFFER

    def end(self, error: HttpError | None) -> None:
        """Record that no more bytes will arrive."""
        self._ended, self._error = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def find_header(headers: list[tuple[bytes, bytes]], name: bytes) -> str | None:
    """Return the first value of a header, `name` in lower case."""
    for key, value in headers:
        if len(key) == len(name) and key.lower() == name:
            return value.decode("latin-1")
    return None


def _expire(waiter: "asyncio.Future[None]", timeout: float) -> None:
    if not waiter.done():
        waiter.set_exception(RequestTimeout(f"no data for {timeout:g} s"))
