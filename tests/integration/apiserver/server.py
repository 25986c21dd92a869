"""The API server under test: koordpy's embedded one, or kube-apiserver on etcd.

Tests see one shape of both, so the suite runs unchanged on either; where they differ, the embedded one is
wrong.
"""

import secrets
import ssl
import tempfile
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
    token: str
    forget: Callable[[], None]
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
        yield Server(plane.url, plane.kubeconfig, plane.token, plane.compact, plane.ca_file)


@contextmanager
def embedded() -> Iterator[Server]:
    """koordpy's own, on a thread with an event loop of its own, so that tests may block."""
    from koordpy.embedded.apiserver import ApiServer

    token = secrets.token_urlsafe(24)
    user = {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]}
    with ApiServer.in_thread(tokens={token: user}) as running, tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(running.url, token)))
        yield Server(running.url, kubeconfig, token, running.compact)


def _kubeconfig(url: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "embedded", "cluster": {"server": url}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "embedded", "context": {"cluster": "embedded", "user": "admin"}}],
        "current-context": "embedded",
    }
