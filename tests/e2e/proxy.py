"""A proxy between two processes on which requests are refused, answers get lost and watches break.

It speaks HTTP/1.1 on a free port of 127.0.0.1, on a thread of its own, so that what it stands between are
processes as they are.
"""

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

_LIMIT = 1 << 24


@dataclass(frozen=True)
class Trouble:
    """What becomes of a request: an answer with a status, or without one a cut connection.

    With `after` that happens once it was carried out; the true answer is lost.
    """

    status: int = 0
    after: bool = False


Judge = Callable[[str, str], Trouble | None]
"""Says of method and path what goes wrong with a request; None if nothing does."""


class Proxy:
    """Carries requests to `upstream` (http or https); `token` is what it authenticates with there.

    `judge` may be exchanged at any time. `troubles` counts what went wrong.
    """

    def __init__(
        self, upstream: str, judge: Judge, *, context: ssl.SSLContext | None = None, token: str = ""
    ) -> None:
        found = urlsplit(upstream)
        self._host, self._port = found.hostname or "", found.port or 0
        self._context = context if found.scheme == "https" else None
        self._token = token
        self.judge = judge
        self.troubles: Counter[Trouble] = Counter()
        self._watches: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LIMIT))
        self._server = server
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            self._server.close()
            serving = list(self._serving)
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut_watches(self) -> None:
        """Break all watches that are open."""

        async def cut() -> None:
            for writer in self._watches:
                writer.transport.abort()

        self._run(cut())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    # --- one connection --------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = _Upstream(self._host, self._port, self._context)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)  # the loop alone does not keep it alive
        try:
            while await self._one(reader, writer, upstream):
                pass
        except (OSError, EOFError):
            pass
        finally:
            self._serving.discard(task)
            self._watches.discard(writer)
            upstream.close()
            writer.transport.abort()

    async def _one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: "_Upstream"
    ) -> bool:
        """Answer one request; return whether the connection can be used for another one."""
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head[:-4].split(b"\r\n")
        method, path, _ = lines[0].decode().split(" ")
        body = await reader.readexactly(int(_field(lines, b"content-length") or 0))
        if self._token:
            lines.append(b"Authorization: Bearer " + self._token.encode())
        request = b"\r\n".join([*lines, b"", body])
        trouble = self.judge(method, path)
        if trouble is not None:
            self.troubles[trouble] += 1
            if trouble.after:
                await upstream.ask(request)
            if not trouble.status:
                return False
            writer.write(_refusal(trouble.status))
        elif "watch=" in path:
            self._watches.add(writer)
            parts = [
                asyncio.ensure_future(upstream.stream(request, writer)),
                asyncio.ensure_future(reader.read()),
            ]
            try:
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
            return False
        else:
            writer.write(await upstream.ask(request))
        await writer.drain()
        return True


class _Upstream:
    """The connection to the other side, made when it is needed and again when it was closed."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._address = host, port
        self._context = context
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> bytes:
        """Return the whole answer to a request."""
        kept = self._streams is not None
        try:
            return await self._ask(request)
        except (OSError, EOFError):
            self.close()
            if not kept:
                raise
            return await self._ask(request)  # it was closed for having been idle

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await self._connected()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head[:-4].split(b"\r\n")
        length = _field(lines, b"content-length")
        if length is not None:
            return head + await reader.readexactly(int(length))
        if (_field(lines, b"transfer-encoding") or b"").lower() != b"chunked":
            return head
        answer = [head]
        while True:
            size = await reader.readuntil(b"\r\n")
            chunk = await reader.readexactly(int(size, 16) + 2)
            answer += [size, chunk]
            if int(size, 16) == 0:
                return b"".join(answer)

    async def stream(self, request: bytes, to: asyncio.StreamWriter) -> None:
        """Pass everything on that comes, until no more does."""
        reader, writer = await self._connected()
        writer.write(request)
        while data := await reader.read(1 << 16):
            to.write(data)
            await to.drain()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            host, port = self._address
            self._streams = await asyncio.open_connection(host, port, ssl=self._context, limit=_LIMIT)
        return self._streams

    def close(self) -> None:
        """Drop the connection."""
        if self._streams is not None:
            with suppress(OSError):
                self._streams[1].transport.abort()
            self._streams = None


def _field(lines: list[bytes], name: bytes) -> bytes | None:
    for line in lines[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def _refusal(code: int) -> bytes:
    reasons = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    body = json.dumps({**status, "reason": reasons[code], "message": f"refused on the way: {code}"}).encode()
    head = f"HTTP/1.1 {code} Refused\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body
