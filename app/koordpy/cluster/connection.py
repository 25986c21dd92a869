"""The address of the API server, and credentials that are kept current.

An `Access` is a loaded configuration; a `Connection` uses the latest one. Credentials are reloaded before
they expire, and immediately after a 401. A kubeconfig is read by the official client, which supports exec
plugins and auth providers. In a pod there are only two files, and they are read here: the official package
takes 35 MB of memory and half a second to import.
"""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from koordpy import __version__
from koordpy.lib.http1 import MAX_BODY, HttpClient, Response, StreamingResponse, header_block
from koordpy.lib.nearest import suggestion

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

JSON = "application/json"

_REFRESH_SECONDS = 60.0
"""How often credentials are reloaded (client-go re-reads token files every minute)."""

_RELOAD_SECONDS = 5.0
"""The shortest time between two reloads caused by a 401."""


class ConnectionConfigError(Exception):
    """The configuration does not say how to reach an API server; the message says what is missing."""


@dataclass(frozen=True)
class Access:
    """How to reach an API server. Its repr contains no secrets."""

    server: str
    authorization: str = field(default="", repr=False)
    """Value of the Authorization header, or empty."""
    ca: bytes = field(default=b"", repr=False)
    """PEM; empty means the system's authorities."""
    client_cert: str = ""
    client_key: str = ""
    """Files; empty means none."""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for plain HTTP."""
        if not self.server.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cadata=self.ca.decode() if self.ca else None)
            if self.insecure_skip_tls_verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            # The CAs of many clusters lack extensions that Python requires since 3.13.
            context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
            if self.client_cert:
                context.load_cert_chain(self.client_cert, self.client_key or None)
        except (ssl.SSLError, OSError, UnicodeDecodeError) as error:
            raise ConnectionConfigError(f"TLS to {self.server}: {error}") from None
        return context


class Channel(Protocol):
    """The transport to an API server: a `Connection`, or a server in this process."""

    @property
    def server(self) -> str:
        """The API server's URL, or another name of it."""
        ...

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
        """Send one request. Raises HttpError."""
        ...

    def stream(
        self, method: str, path: str, *, timeout: float = 30.0
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Open a stream; `timeout` is for status and headers."""
        ...

    async def close(self) -> None:
        """Close all connections, including watches."""
        ...


Loader = Callable[[bool], Access]
"""Load a configuration; with True everything, with False only what is about to expire."""


class Connection:
    """Sends requests to the API server with the current credentials.

    `limit` bounds the requests in flight, except watches; `max_body` the bytes of an answer.
    """

    def __init__(
        self,
        load: Loader,
        *,
        limit: int = 64,
        max_body: int = MAX_BODY,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load, self._limit, self._max_body, self._monotonic = load, limit, max_body, monotonic
        self._reloading = asyncio.Lock()
        self._access = load(True)
        self._http = self._client(self._access)
        self._blocks: dict[str, bytes] = {}
        self._loaded_at = self._checked_at = monotonic()

    @classmethod
    def to(
        cls, access: Access, *, limit: int = 64, max_body: int = MAX_BODY, token_file: Path | None = None
    ) -> "Connection":
        """Connect with explicit settings. A token file is read again every minute."""

        def load(_: bool) -> Access:
            if token_file is None:
                return access
            token = _read(token_file).decode().strip()
            return replace(access, authorization=f"Bearer {token}")

        return cls(load, limit=limit, max_body=max_body)

    @classmethod
    def in_cluster(cls, *, limit: int = 64, directory: Path = SERVICE_ACCOUNT) -> "Connection":
        """Connect as the pod's service account. Raises ConnectionConfigError outside a pod."""
        return cls(in_cluster_loader(directory), limit=limit)

    @classmethod
    def from_kubeconfig(
        cls, path: str | None = None, context: str | None = None, *, limit: int = 64
    ) -> "Connection":
        """Connect with a kubeconfig: the given file, else $KUBECONFIG, else ~/.kube/config."""
        try:
            return cls(kubeconfig_loader(path, context), limit=limit)
        except ConnectionConfigError as error:
            named = f"kubeconfig {path or _kubeconfigs()}: "
            raise ConnectionConfigError(f"{named}{str(error).removeprefix(named)}") from None

    @classmethod
    def find(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        server: str | None = None,
        *,
        limit: int = 64,
    ) -> "Connection":
        """Connect as kubectl does: with an explicit URL, a kubeconfig, or from within a pod."""
        if server is not None:
            return cls.to(Access(server), limit=limit)
        unsaid = kubeconfig is None and context is None and "KUBECONFIG" not in os.environ
        if unsaid and "KUBERNETES_SERVICE_HOST" in os.environ and (SERVICE_ACCOUNT / "token").exists():
            return cls.in_cluster(limit=limit)
        return cls.from_kubeconfig(kubeconfig, context, limit=limit)

    def __repr__(self) -> str:
        return f"Connection({self.server})"

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._access.server

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
        """Send one request; after a 401 repeat it once with reloaded credentials. Raises HttpError."""
        if self._monotonic() - self._checked_at > _REFRESH_SECONDS:
            await self._reload(force=False)
        response = await self._http.request(
            method, path, headers=self._headers(content_type), body=body, timeout=timeout, gzip=gzip
        )
        if response.status == 401 and await self._reload(force=True):
            response = await self._http.request(
                method, path, headers=self._headers(content_type), body=body, timeout=timeout, gzip=gzip
            )
        return response

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, timeout: float = 30.0
    ) -> AsyncIterator[StreamingResponse]:
        """Open a stream; `timeout` is for status and headers. A 401 renews credentials for the next try."""
        if self._monotonic() - self._checked_at > _REFRESH_SECONDS:
            await self._reload(force=False)
        async with self._http.stream(method, path, headers=self._headers(JSON), timeout=timeout) as response:
            if response.status == 401:
                await self._reload(force=True)
            yield response

    async def close(self) -> None:
        """Close all connections, including watches."""
        await self._http.close()

    def _headers(self, content_type: str) -> bytes:
        block = self._blocks.get(content_type)
        if block is None:
            headers = {"accept": JSON, "user-agent": f"koordpy/{__version__}", "content-type": content_type}
            if self._access.authorization:
                headers["authorization"] = self._access.authorization
            block = self._blocks[content_type] = header_block(headers)
        return block

    async def _reload(self, *, force: bool) -> bool:
        """Reload the configuration; return whether the credentials have changed."""
        seen = self._access
        async with self._reloading:
            if self._access is not seen:
                return True  # another request has reloaded it meanwhile
            if force and self._monotonic() - self._loaded_at < _RELOAD_SECONDS:
                return False
            try:
                access = await asyncio.to_thread(self._load, force)
            except (
                Exception
            ) as error:  # a config loader may raise anything; the old credentials may still work
                log.warning("credentials for %s cannot be read again: %s", self.server, error)
                access = seen
            self._checked_at = self._monotonic()
            if force:
                self._loaded_at = self._checked_at
            if access == seen:
                return False
            self._use(access)
            return True

    def _use(self, access: Access) -> None:
        moved = replace(access, authorization="") != replace(self._access, authorization="")
        old = self._http
        if moved:
            self._http = self._client(access)
        self._access, self._blocks = access, {}
        if moved:
            old.retire()

    def _client(self, access: Access) -> HttpClient:
        try:
            return HttpClient(
                access.server,
                tls=access.tls(),
                server_hostname=access.tls_server_name or None,
                proxy=access.proxy_url or None,
                limit=self._limit,
                max_body=self._max_body,
            )
        except ValueError as error:
            raise ConnectionConfigError(str(error)) from None


def in_cluster_loader(directory: Path = SERVICE_ACCOUNT) -> Loader:
    """Return a loader of a pod's service account."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConnectionConfigError(
            "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set"
        )
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def load(_: bool) -> Access:
        token = _read(directory / "token").decode().strip()
        return Access(server, f"Bearer {token}", ca=_read(directory / "ca.crt"))

    return load


def kubeconfig_loader(path: str | None, context: str | None) -> Loader:
    """Return a loader of a kubeconfig, through the official client."""
    from kubernetes.client import Configuration  # expensive to import, and not needed in a pod
    from kubernetes.config import ConfigException, load_kube_config
    from yaml import YAMLError

    current = Configuration()

    def load(force: bool) -> Access:
        nonlocal current
        try:
            if force:
                current = Configuration()
                load_kube_config(  # type: ignore[no-untyped-call]
                    path, context, client_configuration=current
                )
            elif current.refresh_api_key_hook is not None:
                current.refresh_api_key_hook(
                    current
                )  # runs an exec plugin again when its token is about to expire
        except (ConfigException, OSError, YAMLError) as error:
            raise ConnectionConfigError(kubeconfig_error(path, context, error)) from None
        except Exception as error:  # the official client raises anything for fields of wrong types
            told = f"not a kubeconfig ({type(error).__name__}: {error})"
            raise ConnectionConfigError(f"kubeconfig {path or _kubeconfigs()}: {told}") from None
        keys = current.api_key
        return Access(
            server=current.host or "",
            authorization=keys.get("BearerToken") or keys.get("authorization") or "",
            ca=_read(Path(current.ssl_ca_cert)) if current.ssl_ca_cert else b"",
            client_cert=current.cert_file or "",
            client_key=current.key_file or "",
            insecure_skip_tls_verify=not current.verify_ssl,
            tls_server_name=current.tls_server_name or "",
            proxy_url=current.proxy or "",
        )

    return load


def kubeconfig_error(path: str | None, context: str | None, error: Exception) -> str:
    """Return what is wrong with a kubeconfig, where the official client says it in its own terms."""
    from kubernetes.config import ConfigException, list_kube_config_contexts

    prefix = f"kubeconfig {path or _kubeconfigs()}"
    named = path or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if not any(Path(file).expanduser().exists() for file in named.split(os.pathsep) if file):
        return f"{prefix}: no such file; KUBECONFIG or --kubeconfig names the right one"
    if context is not None:
        try:
            found, _ = list_kube_config_contexts(path)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError):
            found = []
        contexts = [str(each["name"]) for each in found]
        if contexts and context not in contexts:
            return f"{prefix}: it has no context {context}; {suggestion(context, contexts)}"
    return f"{prefix}: {error}"


def _kubeconfigs() -> str:
    """Return the default kubeconfig files."""
    named = os.environ.get("KUBECONFIG")
    return f"$KUBECONFIG ({named})" if named else "~/.kube/config"


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConnectionConfigError(f"{path}: {error.strerror}") from None
    if not data.strip():
        raise ConnectionConfigError(f"{path} is empty")
    return data
