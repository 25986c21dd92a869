"""Connect through an HTTP proxy: CONNECT for TLS, complete URLs for plain HTTP."""

import asyncio
import base64
import ssl
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from .http1_connection import Connection
from .http1_request import header_block
from .http1_response import NotConnected

_MAX_HEAD = 64 << 10


@dataclass(frozen=True)
class Proxy:
    """A forward proxy. Its credentials are not in its repr."""

    host: str
    port: int
    tls: bool
    authorization: bytes = field(repr=False)
    """Header line, or empty."""

    @classmethod
    def parse(cls, url: str) -> "Proxy":
        """Read `http[s]://[user:password@]host[:port]`. Raises ValueError for other schemes (socks5 too)."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"proxy URL with scheme {parts.scheme!r}: expected http://host or https://host")
        authorization = b""
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            encoded = base64.b64encode(pair.encode()).decode()
            authorization = header_block({"proxy-authorization": f"Basic {encoded}"})
        tls = parts.scheme == "https"
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls, authorization)


@dataclass(frozen=True)
class Target:
    """The TLS server behind a proxy."""

    authority: str
    tls: ssl.SSLContext
    server_hostname: str


async def open_through(proxy: Proxy, connection: Connection, target: Target | None) -> None:
    """Connect through a proxy; with a target, tunnel TLS to it. Raises NotConnected or OSError."""
    loop = asyncio.get_running_loop()
    proxy_tls = ssl.create_default_context() if proxy.tls else None
    if target is None:
        await loop.create_connection(lambda: connection, proxy.host, proxy.port, ssl=proxy_tls)
        return
    transport, tunnel = await loop.create_connection(
        lambda: _Tunnel(loop.create_future()), proxy.host, proxy.port, ssl=proxy_tls
    )
    try:
        line = f"CONNECT {target.authority} HTTP/1.1\r\nhost: {target.authority}\r\n".encode()
        transport.write(line + proxy.authorization + b"\r\n")
        status_line = await tunnel.answered
        if status_line.split(b" ")[1:2] != [b"200"]:
            raise NotConnected(
                f"proxy {proxy.host}:{proxy.port} answered CONNECT {target.authority} "
                f"with {status_line[:100]!r}"
            )
        secured = await loop.start_tls(
            transport, connection, target.tls, server_hostname=target.server_hostname
        )
    except BaseException:
        transport.abort()
        raise
    assert secured is not None
    connection.connection_made(secured)


class _Tunnel(asyncio.Protocol):
    """Waits for the proxy's answer to CONNECT."""

    def __init__(self, answered: "asyncio.Future[bytes]") -> None:
        self.answered = answered
        self._head = b""

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self.answered.done():
            return
        if b"\r\n\r\n" in self._head:
            self.answered.set_result(self._head.partition(b"\r\n")[0])
        elif len(self._head) > _MAX_HEAD:
            self.answered.set_exception(NotConnected("the proxy's answer to CONNECT does not end"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(
                NotConnected(f"the proxy closed the connection: {exc or 'no answer'}")
            )
