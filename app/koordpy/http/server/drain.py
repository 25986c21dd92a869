"""Graceful shutdown of a listener: each caller is told with a response that it must reconnect elsewhere.

Callers keep connections open and may send the next request at any time. A server that closes such a
connection while a request is in transit drops that request, and a POST is not repeated. So while a listener
drains, every response carries `connection: close`, and further requests are answered until it stops. A
connection without a request so far was opened for one: it is kept a moment longer.
"""

from typing import Any, Final, cast

import uvicorn

from .limits import LimitedProtocol

_CLOSE: Final = (b"connection", b"close")

_FIRST_REQUEST_SECONDS: Final = 1.0


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, and whether the listener drains."""

    draining = False


class DrainingProtocol(LimitedProtocol):
    """A connection that closes after a response once its listener drains."""

    _waits = False

    def on_headers_complete(self) -> None:
        """Begin a request; the last one of this connection if the listener drains."""
        super().on_headers_complete()
        if cast(ServerConfig, self.config).draining and self.cycle is not None:
            cycle: Any = self.cycle
            cycle.keep_alive = False
            if hasattr(cycle, "default_headers"):  # uvicorn does not announce the close itself
                cycle.default_headers = [*cycle.default_headers, _CLOSE]

    def shutdown(self) -> None:
        """Close when idle, else after the response; before the first request only after a moment."""
        if self.cycle is None and not self._waits:
            self._waits = True
            self.loop.call_later(_FIRST_REQUEST_SECONDS, self.shutdown)
        else:
            super().shutdown()
