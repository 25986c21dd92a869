"""Make requests over kept-open connections, count them and time each.

The client is as thin as can be (one protocol, no parser but a search for the length), so that on its own core
it is not what is measured. It speaks only to servers that send Content-Length, as ours do.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit


class UnexpectedAnswer(Exception):
    """A server answered something that makes the measurement void."""


class Channel(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._buffer = bytearray()
        self._wanted = 0
        self._head = 0

    async def ask(self, request: bytes) -> bytes:
        """Send a request; return the body of the answer. Raises UnexpectedAnswer unless its status is 200."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Return who waits."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(UnexpectedAnswer(f"the connection was closed: {exc}"))

    def data_received(self, data: bytes) -> None:
        """Collect until the answer is complete."""
        buffer = self._buffer
        buffer += data
        if not self._wanted:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(buffer[:end]).lower()
            at = head.find(b"\r\ncontent-length:")
            if not head.startswith(b"http/1.1 200") or at < 0:
                self._fail(bytes(buffer))
                return
            length = int(head[at + 17 :].split(b"\r\n", 1)[0])
            self._head, self._wanted = end + 4, end + 4 + length
        if len(buffer) >= self._wanted:
            body = bytes(buffer[self._head : self._wanted])
            buffer.clear()
            self._wanted = 0
            assert self._answer is not None
            self._answer.set_result(body)

    def _fail(self, answer: bytes) -> None:
        assert self._answer is not None
        self._answer.set_exception(UnexpectedAnswer(answer[:300].decode("latin-1")))
        self.close()


def request(url: str, body: bytes) -> bytes:
    """Return the bytes of a POST of JSON."""
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    head = (
        f"POST {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def channels(url: str, count: int) -> AsyncIterator[list[Channel]]:
    """Open connections to the origin of a URL; certificates are not verified."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 0
    context: ssl.SSLContext | None = None
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    loop = asyncio.get_running_loop()
    opened: list[Channel] = []
    try:
        for _ in range(count):
            _, channel = await loop.create_connection(Channel, host, port, ssl=context)
            opened.append(channel)
        yield opened
    finally:
        for channel in opened:
            channel.close()


@dataclass(frozen=True)
class Sample:
    """What one stretch of load showed.

    `latencies` are seconds, sorted, and without the warm-up; `requests` were sent in all.
    """

    seconds: float
    latencies: Sequence[float]
    requests: int

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.seconds

    def milliseconds(self, quantile: float) -> float:
        """Return a quantile of the latencies."""
        return self.latencies[min(int(len(self.latencies) * quantile), len(self.latencies) - 1)] * 1e3


async def apply(
    url: str, next_request: Callable[[], bytes], *, connections: int, seconds: float, warm_up: float = 0.5
) -> Sample:
    """Keep every connection busy for a while; the warm-up before it does not count."""
    async with channels(url, connections) as opened:
        before = await _busy(opened, next_request, warm_up)
        started = time.perf_counter()
        latencies = await _busy(opened, next_request, seconds)
        took = time.perf_counter() - started
        return Sample(took, sorted(latencies), len(before) + len(latencies))


async def _busy(opened: Sequence[Channel], next_request: Callable[[], bytes], seconds: float) -> list[float]:
    latencies: list[float] = []
    clock = time.perf_counter
    end = clock() + seconds

    async def keep_busy(channel: Channel) -> None:
        started = clock()
        while started < end:
            await channel.ask(next_request())
            ended = clock()
            latencies.append(ended - started)
            started = ended

    await asyncio.gather(*map(keep_busy, opened))
    return latencies


def cycle(requests: Sequence[bytes]) -> Callable[[], bytes]:
    """Return a function that gives the requests in turn, for ever."""

    def forever() -> Iterator[bytes]:
        while True:
            yield from requests

    return forever().__next__
