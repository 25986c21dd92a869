"""Our way to an API server, on aiohttp instead of our own HTTP client; only for comparison.

It does what the requests of this comparison need (one origin, TLS, kept-open connections, a bound on how
many, time limits) and leaves out what would cost it more: proxies, renewed credentials, knowing whether a
failed request was sent, bounds on what a server may send.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import aiohttp

from koordpy.cluster.connection import JSON, Access
from koordpy.lib.http1 import RequestTimeout, Response, StreamingResponse


class AiohttpChannel:
    """A `koordpy.cluster.connection.Channel`."""

    def __init__(self, access: Access) -> None:
        self.server = access.server
        self._headers = {"accept": JSON, "user-agent": "koordpy", "authorization": access.authorization}
        connector = aiohttp.TCPConnector(limit=64, ssl=access.tls() or True, keepalive_timeout=90)
        self._session = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 20,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = JSON,
        timeout: float = 30.0,
        gzip: bool = False,
    ) -> Response:
        """Send one request."""
        headers = {**self._headers, "content-type": content_type}
        limit = aiohttp.ClientTimeout(total=timeout)
        async with self._session.request(
            method,
            self.server + path,
            data=body or None,
            headers=headers,
            timeout=limit,
            allow_redirects=False,
        ) as found:
            return Response(found.status, list(found.raw_headers), await found.read())

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, timeout: float = 30.0
    ) -> AsyncIterator[StreamingResponse]:
        """Open a stream; `timeout` is for status and headers."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=timeout)
        async with self._session.request(
            method, self.server + path, headers=self._headers, timeout=limit, allow_redirects=False
        ) as found:
            yield cast(StreamingResponse, _Stream(found))

    async def close(self) -> None:
        """Close everything."""
        await self._session.close()


class _Stream:
    """What a watch uses of a `StreamingResponse`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response, self.status = response, response.status

    def header(self, name: str) -> str | None:
        """Return a header."""
        return self._response.headers.get(name)

    async def read(self, timeout: float | None = None) -> bytes:
        """Return what has come, waiting for the first byte."""
        try:
            async with asyncio.timeout(timeout):
                return await self._response.content.readany()
        except TimeoutError:
            raise RequestTimeout(f"no data for {timeout:g} s") from None
