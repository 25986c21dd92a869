"""An HTTP/1.1 client for frequent calls to few servers.

A request is one write of mostly prebuilt bytes, and a response is a status and a body; the gain over a
general library is in `docs/performance.md`. An `HttpClient` speaks to one origin over keep-alive connections.
It has no redirects, cookies and the like, which API servers do not need.

After a failure a caller must know whether the request may have taken effect: every error has `sent`. Only
idempotent requests are repeated here, once, if a keep-alive connection turns out to be dead.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from .http1_connection import MAX_BODY, Connection
from .http1_proxy import Proxy, Target, open_through
from .http1_request import header_block, request_head
from .http1_response import (
    BadResponse,
    ConnectionLost,
    HttpError,
    NotConnected,
    RequestTimeout,
    Response,
    StreamingResponse,
)

__all__ = [
    "MAX_BODY",
    "BadResponse",
    "Caller",
    "Connect",
    "ConnectionLost",
    "HttpClient",
    "HttpError",
    "NotConnected",
    "RequestTimeout",
    "Response",
    "StreamingResponse",
    "header_block",
]

R = TypeVar("R")


class Caller(Protocol):
    """Sends requests and returns complete responses: an `HttpClient`, or a server in this process."""

    origin: str

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | bytes = b"",
        body: bytes = b"",
        timeout: float = 30.0,
        repeatable: bool | None = None,
    ) -> Response:
        """Send a request and return the complete response, with any status. Raises HttpError."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


Connect = Callable[[str], Caller]
"""Returns the `Caller` of an origin (`https://host:port`)."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_DEFAULT_PORTS = {"http": 80, "https": 443}


class HttpClient:
    """A client of one origin.

    `url` is `http://host[:port][/prefix]` or `https://...`; the prefix is put before every path. At most
    `limit` requests are in flight, further ones wait; streams do not count, because watches are open for a
    long time. Times are seconds, sizes bytes.
    """

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        proxy: str | None = None,
        limit: int = 64,
        connect_timeout: float = 10.0,
        keep_alive: float = 90.0,
        max_body: int = MAX_BODY,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise ValueError(f"not an http:// or https:// URL: {url!r}")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("a server URL has no user, query or fragment")
        _check_host_name(parts.hostname, url)
        self.host = parts.hostname
        self.port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self.max_body = max_body
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._server_hostname = server_hostname or self.host
        self._proxy = Proxy.parse(proxy) if proxy else None
        self._connect_timeout, self._keep_alive, self._limit = connect_timeout, keep_alive, limit
        authority = f"[{self.host}]" if ":" in self.host else self.host
        if self.port != _DEFAULT_PORTS[parts.scheme]:
            authority += f":{self.port}"
        with_port = f"[{self.host}]" if ":" in self.host else self.host
        self._authority = f"{with_port}:{self.port}"
        self.origin = f"{parts.scheme}://{authority}"
        self._prefix = parts.path.rstrip("/")
        self._host_line = header_block({"host": authority})
        if self._proxy is not None and self._tls is None:
            self._prefix = self.origin + self._prefix  # a proxy needs the whole URL
            self._host_line += self._proxy.authorization
        self._slots = asyncio.Semaphore(limit)
        self._idle: deque[Connection] = deque()
        self._all: set[Connection] = set()
        self._closed = False

    def __repr__(self) -> str:
        return f"HttpClient({self.origin}{urlsplit(self._prefix).path})"

    async def __aenter__(self) -> "HttpClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | bytes = b"",
        body: bytes = b"",
        timeout: float = 30.0,
        repeatable: bool | None = None,
        gzip: bool = False,
    ) -> Response:
        """Send a request and return the complete response, with any status.

        `headers` may be a block that `header_block` made before. `repeatable` says whether the request may be
        sent again if a keep-alive connection breaks without a response (default: GET, HEAD and OPTIONS). With
        `gzip` a compressed response is accepted and returned decompressed.

        Raises NotConnected, ConnectionLost, RequestTimeout or BadResponse, all of them HttpError.
        """
        data = request_head(method, self._prefix + path, self._host_line, headers, len(body), gzip) + body
        safe = method in SAFE_METHODS if repeatable is None else repeatable
        deadline = asyncio.get_running_loop().time() + timeout
        slots = self._slots
        if slots.locked():
            await self._within(deadline, slots.acquire(), f"a free connection (all {self._limit} are busy)")
        else:
            await slots.acquire()
        try:
            connection = self._take_idle()
            if connection is not None:
                try:
                    return await connection.fetch(method, data, deadline, self.max_body, gzip)
                except ConnectionLost as error:
                    if error.answered or not safe:
                        raise
                finally:
                    self._give_back(connection)
            connection = await self._within(deadline, self._connect(), "a connection")
            try:
                return await connection.fetch(method, data, deadline, self.max_body, gzip)
            finally:
                self._give_back(connection)
        finally:
            slots.release()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | bytes = b"",
        body: bytes = b"",
        timeout: float = 30.0,
    ) -> AsyncIterator[StreamingResponse]:
        """Send a request and provide its response as it arrives; `timeout` is for status and headers.

        On exit the connection is closed unless the body was read to its end. A slow reader makes the server
        wait (TCP flow control). Raises as `request` does.
        """
        data = request_head(method, self._prefix + path, self._host_line, headers, len(body), False) + body
        deadline = asyncio.get_running_loop().time() + timeout
        connection = self._take_idle()
        response: StreamingResponse | None = None
        if connection is not None:
            try:
                response = await connection.open_stream(method, data, deadline)
            except ConnectionLost as error:
                if error.answered or method not in SAFE_METHODS:
                    raise
        if connection is None or response is None:
            connection = await self._within(deadline, self._connect(), "a connection")
            response = await connection.open_stream(method, data, deadline)
        try:
            yield response
        finally:
            self._give_back(connection)

    def retire(self) -> None:
        """Start no new connections: idle ones are closed now, busy ones after their response."""
        self._closed = True
        while self._idle:
            self._idle.pop().abort("the client was retired")

    async def close(self) -> None:
        """Close all connections: requests in flight raise ConnectionLost, later ones NotConnected."""
        self._closed = True
        for connection in list(self._all):
            connection.abort("the client was closed")
        self._idle.clear()
        await asyncio.sleep(0)

    def _take_idle(self) -> Connection | None:
        """Return an idle connection that the server has not closed, None if there is none."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if (
                connection.is_usable
                and now - connection.idle_since < self._keep_alive
                and connection.is_quiet()
            ):
                return connection
            connection.abort("it was idle for too long or closed by the server")
        return None

    def _give_back(self, connection: Connection) -> None:
        if connection.is_usable and not self._closed and len(self._idle) < self._limit:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort("it cannot be used again")

    async def _within(self, deadline: float, work: Coroutine[Any, Any, R], what: str) -> R:
        try:
            async with asyncio.timeout_at(deadline):
                return await work
        except TimeoutError:
            raise RequestTimeout(f"{self.origin}: no {what} in time", sent=False) from None

    async def _connect(self) -> Connection:
        if self._closed:
            raise NotConnected(f"{self.origin}: the client was closed")
        connection = Connection(self.origin, self._all)
        try:
            async with asyncio.timeout(self._connect_timeout):
                await self._open(connection)
        except TimeoutError:
            connection.abort("connecting took too long")
            raise NotConnected(f"{self.origin}: not connected within {self._connect_timeout:g} s") from None
        except (OSError, ssl.SSLError) as error:
            connection.abort("connecting failed")
            raise NotConnected(f"{self.origin}: {error}") from error
        except BaseException:
            connection.abort("connecting was given up")
            raise
        if self._closed:
            connection.abort("the client was closed")
            raise NotConnected(f"{self.origin}: the client was closed")
        return connection

    async def _open(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        if self._proxy is not None:
            target = None
            if self._tls is not None:
                target = Target(self._authority, self._tls, self._server_hostname)
            await open_through(self._proxy, connection, target)
        elif self._tls is not None:
            await loop.create_connection(
                lambda: connection, self.host, self.port, ssl=self._tls, server_hostname=self._server_hostname
            )
        else:
            await loop.create_connection(lambda: connection, self.host, self.port)


def _check_host_name(host: str, url: str) -> None:
    """Raise ValueError for a host that no resolver accepts."""
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(f"not a host name: {host[:80]!r} of {url[:80]!r}") from None
    if any(character.isspace() for character in host):
        raise ValueError(f"a host name has no spaces: {host[:80]!r} of {url[:80]!r}")
