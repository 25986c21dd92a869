"""One address on which some doors are open: an ASGI application behind uvicorn, in the caller's event loop.

uvicorn's own `serve()` owns the process (signals, exit); a koordpy process opens several listeners, so here
the composition decides when each starts and stops.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from koordpy.lib import certificates

from .protocol import Protocol

log = logging.getLogger(__name__)


class ListenError(OSError):
    """An address cannot be listened on; the message names it."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listener:
    """Serve an ASGI application on one address until stopped.

    `port` 0 takes a free one; `url` tells which. With `cert_dir` it speaks TLS, and a certificate that is
    replaced in that folder is used for new connections within `reload_seconds`.
    """

    def __init__(
        self,
        name: str,
        app: Any,
        *,
        host: str,
        port: int,
        cert_dir: Path | None = None,
        reload_seconds: float = 10.0,
        grace_seconds: int = 30,
    ) -> None:
        self.name, self.host, self._cert_dir, self._reload_seconds = name, host, cert_dir, reload_seconds
        self._loaded = self._stamp()  # before loading: what is replaced meanwhile is loaded again
        self._context = certificates.server_context(cert_dir) if cert_dir else None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise ListenError(f"the {name} listener cannot use {host}:{port}: {error.strerror}") from None
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app,
            http=Protocol,
            ssl_context_factory=self._make_context if self._context else None,
            proxy_headers=False,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="off",
            backlog=2048,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=grace_seconds,
        )
        self._server = _Server(config)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """Where the listener is, e.g. `https://127.0.0.1:9876`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._context else 'http'}://{host}:{self.port}"

    @property
    def is_listening(self) -> bool:
        """Whether connections are accepted."""
        return self._server.started and not self._server.should_exit

    async def start(self) -> None:
        """Listen; return once connections are accepted."""
        serving = asyncio.create_task(self._server.serve([self._socket]), name=f"listener-{self.name}")
        self._tasks.append(serving)
        while not self._server.started:
            if serving.done():
                await serving
                raise ListenError(f"the {self.name} listener on {self.url} ended while starting")
            await asyncio.sleep(0.005)
        if self._context is not None:
            self._tasks.append(asyncio.create_task(self._reload_certificates()))
        log.info("%s listens on %s", self.name, self.url)

    async def stop(self) -> None:
        """Stop accepting, let requests that are under way end (at most `grace_seconds`), close."""
        self._server.should_exit = True
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._socket.close()

    def close(self) -> None:
        """Give the address back; for a listener that was never started."""
        self._socket.close()

    def _make_context(self, _: uvicorn.Config, __: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        assert self._context is not None
        return self._context

    async def _reload_certificates(self) -> None:
        assert self._cert_dir is not None
        assert self._context is not None
        while True:
            await asyncio.sleep(self._reload_seconds)
            stamp = self._stamp()
            if stamp == self._loaded or None in stamp:
                continue
            try:
                certificates.load_server_certificate(self._context, self._cert_dir)
            except certificates.CertificateError as error:  # half of the pair may still be on its way
                log.warning("keeping the old certificate of %s: %s", self.name, error)
                continue
            self._loaded = stamp
            log.info("%s serves a new certificate from %s", self.name, self._cert_dir)

    def _stamp(self) -> tuple[tuple[int, int] | None, ...]:
        if self._cert_dir is None:
            return ()
        return tuple(
            _file_stamp(self._cert_dir / name) for name in (certificates.SERVER_CERT, certificates.SERVER_KEY)
        )


def _file_stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
