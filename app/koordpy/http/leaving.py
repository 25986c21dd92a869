"""How a listener takes leave: callers are told to go elsewhere with the answer to their next request.

Callers keep connections open and send the next request on them without asking. A server that closes such a
connection while a request is on its way has dropped that request, and nobody repeats a POST. So from then on
every answer carries `connection: close`, and what comes until the listener stops is still answered. A
connection that has not brought a request yet was opened to bring one: it gets a moment longer.
"""

from typing import Any, Final, cast

import uvicorn

from .guard import GuardedProtocol

_CLOSE: Final = (b"connection", b"close")

_FIRST_REQUEST_SECONDS: Final = 1.0


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, and whether the listener takes leave."""

    leaving = False


class LeavingProtocol(GuardedProtocol):
    """A connection that ends with an answer once its listener takes leave."""

    _waits = False

    def on_headers_complete(self) -> None:
        """Begin a request; the last one of this connection where the listener takes leave."""
        super().on_headers_complete()
        if cast(ServerConfig, self.config).leaving:
            cycle: Any = self.cycle
            cycle.keep_alive = False
            if hasattr(cycle, "default_headers"):  # uvicorn closes without a word unless it is told to
                cycle.default_headers = [*cycle.default_headers, _CLOSE]

    def shutdown(self) -> None:
        """Close when idle, else after the answer; before the first request in a moment."""
        if self.cycle is None and not self._waits:
            self._waits = True
            self.loop.call_later(_FIRST_REQUEST_SECONDS, self.shutdown)
        else:
            super().shutdown()
