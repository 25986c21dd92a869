"""uvicorn's HTTP protocol with head and body of an answer in one write.

uvicorn writes them one after the other: two system calls, two TCP segments (two TLS records), and a client
that is woken for a head without a body. Where client and server share cores, as kube-scheduler and its
extender do, the first of them costs a context switch in the middle of an answer.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_GOODBYE_SECONDS = 1.0
"""asyncio would wait half a minute for a close_notify."""


class JoiningTransport:
    """A transport that holds a write back for the next one, at most until the event loop's next turn."""

    __slots__ = ("_held", "_loop", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write `data` together with what was held back, or hold it back."""
        if self._held:
            data, self._held = self._held + data, b""
            self._transport.write(data)
        elif data:
            self._held = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Close when everything is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            data, self._held = self._held, b""
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Protocol(HttpToolsProtocol):
    """What the listeners speak."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the joining transport between uvicorn and the network."""
        super().connection_made(cast(asyncio.Transport, JoiningTransport(transport, self.loop)))

    def shutdown(self) -> None:
        """Close when idle, else after the answer. An idle TLS peer that does not say goodbye is cut off."""
        super().shutdown()
        if self.transport.is_closing():
            self.loop.call_later(_GOODBYE_SECONDS, self.transport.abort)
