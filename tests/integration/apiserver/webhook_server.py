"""An HTTPS admission webhook whose answers a test decides, and the configurations that call it."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.certificates import Authority
from tests.eventually import PATIENCE
from tests.integration.apiserver.objects import config_map
from tests.integration.apiserver.rest import Document, Rest, ok

Answer = Callable[[Document], Document]
"""From the ``request`` of an AdmissionReview to its ``response`` (the uid is filled in)."""


def allow(request: Document) -> Document:
    return {"allowed": True}


def patching(*operations: Document) -> Answer:
    """Allow, with a JSON patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def denying(message: str, code: int | None = None, **status: Any) -> Answer:
    result = {"message": message, **status} | ({} if code is None else {"code": code})
    return lambda request: {"allowed": False, "status": result}


def mark(name: str) -> Document:
    """The operation that notes ``name`` in a ConfigMap's data."""
    return {"op": "add", "path": f"/data/{name}", "value": "set"}


def subject() -> Document:
    """The ConfigMap that webhook tests create."""
    return config_map("a", key="value")


def rule(*resources: str, operations: tuple[str, ...] = ("CREATE",), group: str = "") -> Document:
    """A rule for version v1 of these resources."""
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
    }


class WebhookServer:
    """Serves on a free port of 127.0.0.1 until ``close``. ``seen`` holds the requests of each path, in
    order.
    """

    def __init__(self, folder: Path) -> None:
        authority = Authority("webhook under test")
        certificate, key = authority.issue(folder, "127.0.0.1")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.ca_bundle = base64.b64encode(authority.pem).decode()
        self.answers: dict[str, Answer] = {}
        self.seen: dict[str, list[Document]] = {}
        self.queries: dict[str, str] = {}
        self._server = _Server(self, context)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def webhook(self, name: str, answer: Answer | None, namespace: str, **fields: Any) -> Document:
        """A webhook called ``name.example.com`` on the path ``/name``, for ConfigMaps that are created.

        It applies to ``namespace`` only. ``answer`` of ``None`` is an answer that is no AdmissionReview.
        """
        self.seen[name] = []
        if answer is not None:
            self.answers[name] = answer
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"{self.url}/{name}", "caBundle": self.ca_bundle},
            "rules": [rule("configmaps")],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 30,
            **fields,
        }

    @contextmanager
    def installed(
        self, rest: Rest, kind: str, name: str, namespace: str, webhooks: list[Document]
    ) -> Iterator[None]:
        """The configuration holds: the API server calls these webhooks from here to the end of the block.

        ``kind`` is ``Mutating`` or ``Validating``. A further webhook, asked by dry runs, tells when the API
        server has noticed the configuration.
        """
        probe = self.webhook(
            "probe",
            allow,
            namespace,
            objectSelector={"matchLabels": {"probe": name}},
        )
        configurations = rest.collection(f"{kind.lower()}webhookconfigurations")
        document = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [probe, *webhooks],
        }
        ok(configurations.create(document), 201)
        try:
            deadline = time.monotonic() + PATIENCE
            marker = {"metadata": {"name": "probe", "labels": {"probe": name}}}
            while not self.seen["probe"]:
                assert time.monotonic() < deadline, f"{name} is not called"
                rest.collection("configmaps", namespace).create(marker, dryRun="All")
                time.sleep(0.02)
            for requests in self.seen.values():
                requests.clear()
            yield
        finally:
            configurations.delete(name)


Install = Callable[..., AbstractContextManager[None]]
"""What the fixtures ``mutating`` and ``validating`` are: ``with mutating(webhook, ...)`` installs one
configuration (called ``name``, by default as the namespace)."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, owner: WebhookServer, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner
        self.context = context

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        # The handshake is left to the thread of the connection.
        wrapped = self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return wrapped, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no failure of a test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        owner = self.server.owner
        path, _, query = self.path.removeprefix("/").partition("?")
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review["request"]
        owner.seen.setdefault(path, []).append(request)
        owner.queries[path] = query
        body: Document = {"no": "review"}
        if path in owner.answers:
            response = {"uid": request["uid"], **owner.answers[path](request)}
            body = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are kept in ``seen`` instead."""
