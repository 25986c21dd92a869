"""The port of the API server."""

import asyncio

from koordpy.lib import request_origin

from .connection import Connection
from .connections import Connections
from .wire import Handler

_SWEEP_INTERVAL = 5.0
"""Seconds between two searches for connections that take too long."""


class Listener:
    """A port with its connections. Raises OSError from `start` if the port is in use."""

    def __init__(self, handler: Handler, connections: Connections | None = None) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self.connections = Connections() if connections is None else connections

    async def start(self, host: str, port: int) -> int:
        """Serve on a port (0: a free one), and return it."""
        loop = asyncio.get_running_loop()
        self.connections.names = request_origin.names_for(host)
        self._server = await loop.create_server(
            lambda: Connection(self._handler, self.connections),
            host,
            port,
            backlog=1024,
            reuse_address=True,
        )
        self._sweep()
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self.connections.sweep(loop.time())
        self._sweeper = loop.call_later(_SWEEP_INTERVAL, self._sweep)

    def close(self) -> None:
        """Accept no further connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._sweeper is not None:
            self._sweeper.cancel()

    def close_connections(self) -> None:
        """Close the open connections."""
        for connection in self.connections:
            connection.close()
