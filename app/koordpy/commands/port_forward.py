"""A local port whose connections lead to a port of a pod, through the API server (`pods/portforward`)."""

import json
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from koordpy.cluster.connection import kubeconfig_error

from .options import Failure

_BUFFER: Final = 64 << 10

_DEFAULT: Final = Path.home() / ".kube" / "config"

RIGHTS: Final = "list on pods, get on leases, get and create on pods/portforward"


class PortForward:
    """Accepts connections at `url` on loopback, and forwards each to a port of a pod, until `close`.

    `core` is the CoreV1Api of the package `kubernetes`; a websocket carries each connection.
    """

    def __init__(self, core: Any, namespace: str, pod: str, port: int) -> None:
        self._core, self._namespace, self._pod, self._port = core, namespace, pod, port
        self.error = ""
        """Why the last connection failed."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="port-forward", daemon=True).start()

    def close(self) -> None:
        """Accept no more connections; those that are open end with the process."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._forward, args=(connection,), daemon=True).start()

    def _forward(self, near: socket.socket) -> None:
        from kubernetes.client import ApiException
        from kubernetes.stream import portforward

        with near:
            try:
                stream = portforward(
                    self._core.connect_get_namespaced_pod_portforward,
                    self._pod,
                    self._namespace,
                    ports=str(self._port),
                )
            except ApiException as error:
                self.error = told(error)
                return
            far = stream.socket(self._port)
            back = threading.Thread(target=_pump, args=(far, near), daemon=True)
            back.start()
            _pump(near, far)
            back.join()
            self.error = _text(stream.error(self._port)) or self.error
            far.close()


def _pump(source: Any, target: Any) -> None:
    """Copy bytes until the source ends, then end the target."""
    with suppress(OSError):
        while data := source.recv(_BUFFER):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _text(error: Any) -> str:
    return error.decode(errors="replace").strip() if isinstance(error, bytes) else str(error or "")


def told(error: Any) -> str:
    """Return the API server's own message in an ApiException, with the rights that a refusal is about."""
    # The body of a refused handshake is the last part of the reason.
    body = error.body or str(error.reason or "").rpartition("-+-+- ")[2]
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = " ".join(str(error.reason or error).split())
    forbidden = error.status == 403 or "403 Forbidden" in str(error.reason)
    return f"{message}; needed are {RIGHTS} in koordpy's namespace" if forbidden else message


def api_client(kubeconfig: str | None, context: str | None) -> Any:
    """Return the package's ApiClient for a kubeconfig, or for the pod's service account where there is none.

    Raises Failure.
    """
    import kubernetes

    # The package reads the variable when it is imported.
    given, kubeconfig = kubeconfig, kubeconfig or os.environ.get("KUBECONFIG")
    configuration = kubernetes.client.Configuration()
    try:
        if kubeconfig is None and context is None and not _DEFAULT.exists():
            load: Any = kubernetes.config.load_incluster_config
            load(client_configuration=configuration)
        else:
            load = kubernetes.config.load_kube_config
            load(kubeconfig, context, client_configuration=configuration)
    except (kubernetes.config.ConfigException, OSError) as error:
        raise Failure(kubeconfig_error(given, context, error)) from None
    configuration.retries = False
    return kubernetes.client.ApiClient(configuration)
