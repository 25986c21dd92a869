"""Accepts connections on a listening socket, up to a limit.

uvicorn's own servers accept every waiting connection. A process that has as many connections as it can serve,
or is out of file descriptors, closes those that have waited for their caller longest, so that callers that
open connections and send nothing keep no other out; if all are being answered, further ones wait in the
kernel's queue. Unfinished TLS handshakes count and are bounded in time.
"""

import asyncio
import contextlib
import errno
import heapq
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

log = logging.getLogger(__name__)

_AT_ONCE: Final = 64
"""The most connections accepted in one iteration of the event loop."""

_FULL_SECONDS: Final = 0.02
"""How long accepting pauses at the limit before it checks for closed connections."""

_CLOSED_AT_ONCE: Final = 16
"""The most connections closed for further ones before these are accepted."""

_CLOSING_SECONDS: Final = 0.002
"""How long accepting pauses after connections were closed: it takes some iterations of the event loop."""

_TLS_RECEIVED: Final = 32 * 1024
"""Bytes that the kernel keeps of what a TLS connection has received. The event loop keeps a buffer for each
TLS connection, which becomes as large as the most that it ever read at once."""

_GRACE_SECONDS: Final = 0.05
"""How long a connection may wait for its caller before it can be closed for others."""

Waiting = tuple[tuple[int, float], Callable[[], None]]
"""A connection that waits for its caller: its place in the order of closing, and what closes it. Connections
without a complete request so far have `(0, TIME)`; TIME is the event loop's when they were accepted."""

_HANDSHAKE_SECONDS: Final = 10.0
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_SECONDS: Final = 1.0

_ABORTED: Final = (ConnectionError, TimeoutError, ssl.SSLError, asyncio.CancelledError)


class Acceptor:
    """Accepts on a socket from `start` to `close`; it has the methods of asyncio's servers that uvicorn
    calls.

    `connections` returns the number of connections. Beyond `limit` (handshakes included) none is accepted
    before others were closed, of those that `waiting` returns and unfinished handshakes.
    `tls` may be replaced; later connections use it.
    """

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        connections: Callable[[], int],
        limit: int,
        waiting: Callable[[], Iterable[Waiting]] = tuple,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._socket, self._make_protocol, self.tls = listening, make_protocol, tls
        self._connections, self._limit, self._waiting = connections, limit, waiting
        self._handshakes: dict[asyncio.Task[None], float] = {}
        self._later: asyncio.TimerHandle | None = None
        self._is_open = False

    def start(self, backlog: int) -> None:
        """Listen."""
        self._loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        if self.tls is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _TLS_RECEIVED)
        self._socket.listen(backlog)
        self._is_open = True
        self._watch()

    def close(self) -> None:
        """Accept no more connections, and drop those with an unfinished handshake."""
        if self._is_open:
            self._is_open = False
            self._unwatch()
            for handshake in self._handshakes:
                handshake.cancel()

    async def wait_closed(self) -> None:
        """Return once there is no unfinished handshake."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _watch(self) -> None:
        self._later = None
        if self._is_open:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def _unwatch(self) -> None:
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._socket.fileno())

    def _pause(self, seconds: float) -> None:
        self._unwatch()
        self._later = self._loop.call_later(seconds, self._watch)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if self._connections() + len(self._handshakes) >= self._limit:
                self._pause(_CLOSING_SECONDS if self._make_way() else _FULL_SECONDS)
                return
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.warning("cannot accept more connections: %s", error.strerror)
                self._pause(_CLOSING_SECONDS if self._make_way() else _EXHAUSTED_SECONDS)
                return
            connection.setblocking(False)
            handshake = self._loop.create_task(self._handshake(connection))
            self._handshakes[handshake] = self._loop.time()
            handshake.add_done_callback(self._handshakes.pop)

    def _make_way(self) -> bool:
        """Close the connections that have waited for their caller longest; return whether there were any."""
        waiting: list[Waiting] = list(self._waiting())
        waiting += [((0, began), partial(_end, task)) for task, began in self._handshakes.items()]
        latest = self._loop.time() - _GRACE_SECONDS
        old = (each for each in waiting if each[0][1] <= latest)
        oldest = heapq.nsmallest(_CLOSED_AT_ONCE, old, key=lambda each: each[0])
        for _, close in oldest:
            close()
        return bool(oldest)

    async def _handshake(self, connection: socket.socket) -> None:
        """Set a connection up; one that fails is closed."""
        with contextlib.suppress(OSError):  # the caller may already be gone
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        timeout = None if self.tls is None else _HANDSHAKE_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol, connection, ssl=self.tls, ssl_handshake_timeout=timeout
            )
        except _ABORTED as error:
            log.debug("a connection failed before its first request: %s", error)
            connection.close()


def _end(handshake: asyncio.Task[None]) -> None:
    handshake.cancel()
