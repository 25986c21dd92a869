"""A faulty network between koordpy and the API server of a simulation.

Requests are rejected, delayed, cut before or after they were executed; watches lag, repeat events and break.
Other clients of the server are not affected.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from koordpy.cluster.connection import JSON
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.embedded.apiserver.wire import Answer, Cut, Request
from koordpy.lib.http1 import ConnectionLost, Response, StreamingResponse
from koordpy.simulation.inprocess import ServerChannel

SAID_AGAIN = 8
"""The number of latest pieces of a watch that may be repeated."""


class Weather(ServerChannel):
    """A channel for a `Client`. `sent` is called with method, path and body of every request."""

    def __init__(self, server: ApiServer, sent: Callable[[str, str, bytes], None]) -> None:
        super().__init__(server)
        self.troubles: list[tuple[str, str, Fault]] = []
        """The faults of the next requests: method, part of the path, fault."""
        self._server, self._sent = server, sent
        self._handle = self._troubled
        self._calm: dict[str, asyncio.Event] = {}
        self._echoes: set[str] = set()

    # --- faults ----------------------------------------------------------------------------------

    def hold(self, plural: str) -> None:
        """Hold back the watches of a type until `let_go`."""
        self._of(plural).clear()

    def let_go(self, plural: str) -> None:
        """Deliver everything that was held back."""
        self._of(plural).set()

    def say_again(self, plural: str) -> None:
        """Repeat earlier pieces after the next piece of a watch of a type."""
        self._echoes.add(plural)

    def clear_up(self) -> None:
        """Remove all faults."""
        self.troubles.clear()
        self._echoes.clear()
        for calm in self._calm.values():
            calm.set()

    def _of(self, plural: str) -> asyncio.Event:
        if plural not in self._calm:
            self._calm[plural] = asyncio.Event()
            self._calm[plural].set()
        return self._calm[plural]

    # --- requests --------------------------------------------------------------------------------

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
        """Answer one request, or not."""
        self._sent(method, path.partition("?")[0], body)
        try:
            return await super().request(method, path, body=body, content_type=content_type)
        except Cut:
            raise ConnectionLost("the connection was cut", answered=False) from None

    def _troubled(self, request: Request) -> Answer:
        self._server.faults = self._fault
        try:
            return self._server.handle(request)  # type: ignore[return-value]
        finally:
            self._server.faults = None

    def _fault(self, method: str, path: str) -> Fault | None:
        for index, (of_method, part, fault) in enumerate(self.troubles):
            if method == of_method and part in path:
                del self.troubles[index]
                return fault
        return None

    # --- watches ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, timeout: float = 30.0
    ) -> AsyncIterator[StreamingResponse]:
        """Open a watch."""
        plural = path.partition("?")[0].rpartition("/")[2]
        async with super().stream(method, path) as response:
            read = response.read
            said: deque[bytes] = deque(maxlen=SAID_AGAIN)

            async def late(timeout: float | None = None) -> bytes:
                data = await read()
                await self._of(plural).wait()
                if data and plural in self._echoes:
                    self._echoes.discard(plural)
                    return b"".join([data, *said])
                said.append(data)
                return data

            response.read = late  # type: ignore[method-assign]
            yield response
