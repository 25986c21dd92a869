"""The API server under test: koordpy's embedded one, or kube-apiserver on etcd.

Tests see one shape of both, so the suite runs unchanged on either; where they differ, the embedded one is
wrong.
"""

import asyncio
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Server:
    """How to reach the server under test. ``forget`` drops the history that old resource versions need."""

    url: str
    kubeconfig: Path
    forget: Callable[[], None]
    real: bool
    token: str | None = None
    ca_file: Path | None = None

    def tls(self) -> ssl.SSLContext | None:
        """A context that trusts the server's certificate; none for plain HTTP."""
        return ssl.create_default_context(cafile=self.ca_file) if self.ca_file else None


@contextmanager
def real() -> Iterator[Server]:
    """kube-apiserver and etcd."""
    from tests.e2e.controlplane.plane import ControlPlane

    # Snapshots that the API server keeps in memory would outlive the history that etcd forgets.
    flags = ["--feature-gates=ListFromCacheSnapshot=false"]
    with ControlPlane(api_server_flags=flags) as plane:
        yield Server(plane.url, plane.kubeconfig, plane.compact, True, plane.token, plane.ca_file)


@contextmanager
def embedded() -> Iterator[Server]:
    """koordpy's own, on a thread with an event loop of its own, so that tests may block."""
    from koordpy.embedded.apiserver import ApiServer

    started: asyncio.Future[Any] | Any = None
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded API server", daemon=True)
    thread.start()

    def call(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout=30)

    manager = ApiServer()
    try:
        started = call(manager.__aenter__())
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(_kubeconfig(started.url)))
            yield Server(started.url, kubeconfig, started.compact, False)
    finally:
        if started is not None:
            call(manager.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=30)
        loop.close()


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "embedded", "cluster": {"server": url}}],
        "users": [{"name": "anyone", "user": {}}],
        "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "anyone"}}],
        "current-context": "embedded",
    }
