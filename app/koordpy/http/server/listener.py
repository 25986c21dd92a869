"""A listener: an ASGI application on one address, behind uvicorn, in the caller's event loop.

uvicorn's own `serve()` owns the process (signals, exit); a koordpy process has several listeners, so here
the caller decides when each starts and stops.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Collection, Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

import uvicorn

from koordpy.lib import certificate_files, server_tls

from .acceptor import Acceptor, Waiting
from .client_certificates import ClientCertificates
from .drain import DrainingProtocol, ServerConfig
from .limits import LimitedProtocol, Limits
from .memory import Memory

log = logging.getLogger(__name__)

_BACKLOG: Final = 4096
_CHECK_SECONDS: Final = 1.0


class ListenError(OSError):
    """An address cannot be used; the message names it."""


def _bind(name: str, host: str, port: int) -> socket.socket:
    """Bind a socket; `name` is for the message of ListenError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ListenError(f"the {name} listener cannot use {host}:{port}: {error.strerror}") from None
    return bound


class _Server(uvicorn.Server):
    """uvicorn's server with a custom acceptor, limits and no signal handlers."""

    def __init__(
        self,
        config: uvicorn.Config,
        listening: socket.socket,
        hosts: Collection[str] | None,
        clients: ClientCertificates | None,
        memory: Memory,
    ) -> None:
        super().__init__(config)
        self._listening, self._hosts, self._clients = listening, hosts, clients
        self._tls: ssl.SSLContext | None = None
        self._acceptor: Acceptor | None = None
        self._limits, self._memory = Limits(), memory
        self._exiting = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        """Wait until `exit`; uvicorn would look for it, and write a header that is not sent, all the time."""
        await self.on_tick(0)
        await self._exiting.wait()

    def exit(self) -> None:
        """End the main loop."""
        self.should_exit = True
        self._exiting.set()

    def use(self, tls: ssl.SSLContext) -> None:
        """Speak TLS with this context, from the next connection on."""
        self._tls = tls
        if self._acceptor is not None:
            self._acceptor.tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        connections: set[Any] = self.server_state.connections
        limits, is_cheap = self._limits, self._tls is None or self._clients is not None
        self._acceptor = acceptor = Acceptor(
            self._listening,
            partial(
                DrainingProtocol,
                config=self.config,
                server_state=self.server_state,
                app_state={},
                limits=self._limits,
                memory=self._memory,
                hosts=self._hosts,
                clients=self._clients,
            ),
            connections=connections.__len__,
            limit=limits.connections if is_cheap else limits.tls_connections,
            waiting=self._waiting,
            tls=self._tls,
        )
        acceptor.start(self.config.backlog)
        self.servers: list[Any] = [acceptor]
        self.started = True

    def _waiting(self) -> Iterator[Waiting]:
        """Yield the connections that may be closed for others."""
        for connection in self.server_state.connections:
            if isinstance(connection, LimitedProtocol) and connection.precedence[1] < inf:
                yield connection.precedence, connection.transport.abort

    async def enforce_deadlines(self) -> None:
        """Check the deadlines of all connections once a second, as the second begins.

        Other things that happen once a second do then, too: the process wakes once for all of them.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_CHECK_SECONDS - loop.time() % _CHECK_SECONDS)
            now = loop.time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, LimitedProtocol):
                    connection.check(now)


class Listener:
    """Serve an ASGI application on one address until stopped.

    `port` 0 means any free one, see `url`. With `cert_dir` it speaks TLS, and a certificate that is replaced
    in that folder is used for new connections within `reload_seconds`. With `certificate_comes_later` the
    certificate need not exist before `start`. `grace_seconds` limits how long requests may take after `stop`.
    `hosts` are further names that Host may have, None allows any (`koordpy.lib.request_origin`).
    With `clients` only callers with such a client certificate are served; it needs `cert_dir`.
    `memory` limits what the callers of several listeners make a process hold together.
    """

    def __init__(
        self,
        name: str,
        app: Any,
        *,
        host: str,
        port: int,
        cert_dir: Path | None = None,
        certificate_comes_later: bool = False,
        reload_seconds: float = 10.0,
        grace_seconds: int = 30,
        hosts: Collection[str] | None = None,
        clients: ClientCertificates | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.name, self.host, self._cert_dir, self._reload_seconds = name, host, cert_dir, reload_seconds
        self._clients = clients
        self._loaded: tuple[tuple[int, int] | None, ...] = ()
        tls = None if certificate_comes_later else self._context()
        self._socket = _bind(name, host, port)
        self.port: int = self._socket.getsockname()[1]
        self._config = ServerConfig(
            app,
            http=DrainingProtocol,
            ws="none",  # its connections would bypass all limits
            proxy_headers=False,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="off",
            backlog=_BACKLOG,
            timeout_graceful_shutdown=grace_seconds,
        )
        self._server = _Server(self._config, self._socket, hosts, clients, memory or Memory())
        if tls is not None:
            self._server.use(tls)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """The listener's URL, e.g. `https://127.0.0.1:9876`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._cert_dir else 'http'}://{host}:{self.port}"

    @property
    def is_listening(self) -> bool:
        """Whether connections are accepted."""
        return self._server.started and not self._server.should_exit

    async def start(self) -> None:
        """Listen; return once connections are accepted. Raises CertificateError, ListenError."""
        if not self._loaded:
            self._load()
        serving = asyncio.create_task(self._server.serve([self._socket]), name=f"listener-{self.name}")
        self._tasks.append(serving)
        while not self._server.started:
            if serving.done():
                await serving
                raise ListenError(f"the {self.name} listener on {self.url} ended while starting")
            await asyncio.sleep(0.005)
        self._tasks.append(asyncio.create_task(self._server.enforce_deadlines()))
        if self._cert_dir is not None:
            self._tasks.append(asyncio.create_task(self._reload_certificates()))
        log.info("%s listens on %s", self.name, self.url)

    def drain(self) -> None:
        """Begin to shut down: responses from now on ask the caller to reconnect. `stop` comes later."""
        self._config.draining = True

    async def stop(self) -> None:
        """Stop accepting, let requests in flight finish (for at most `grace_seconds`), close."""
        self.drain()
        self._server.exit()
        await asyncio.gather(*self._tasks[:1], return_exceptions=True)
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks[1:], return_exceptions=True)
        self._socket.close()

    def close(self) -> None:
        """Release the address of a listener that was never started."""
        self._socket.close()

    def reload(self) -> None:
        """Use a replaced certificate for new connections; keep the old one if it does not load."""
        stamp = self._stamp()
        if stamp == self._loaded or None in stamp:
            return
        try:
            self._load()
        except certificate_files.CertificateError as error:  # half of the pair may not be written yet
            log.warning("keeping the old certificate of %s: %s", self.name, error)
        else:
            log.info("%s serves a new certificate from %s", self.name, self._cert_dir)

    async def _reload_certificates(self) -> None:
        while True:
            await asyncio.sleep(self._reload_seconds)
            self.reload()

    def _load(self) -> None:
        context = self._context()
        if context is not None:
            self._server.use(context)

    def _context(self) -> ssl.SSLContext | None:
        """Return a context with the present files, None without TLS. Raises CertificateError.

        A new one each time, so that it does not trust authorities that are no longer in the files.
        """
        if self._cert_dir is None:
            return None
        stamp = self._stamp()  # before loading, so that a later replacement is noticed
        context = server_tls.server_context(self._cert_dir)
        if self._clients is not None:
            server_tls.require_client_certificates(context, self._clients.authorities)
        self._loaded = stamp
        return context

    def _stamp(self) -> tuple[tuple[int, int] | None, ...]:
        if self._cert_dir is None:
            return ()
        files = [
            self._cert_dir / name for name in (certificate_files.SERVER_CERT, certificate_files.SERVER_KEY)
        ]
        if self._clients is not None:
            files.append(self._clients.authorities)
        return tuple(map(_file_stamp, files))


def _file_stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
