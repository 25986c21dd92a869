"""A thin client of the Kubernetes REST API that hides nothing: tests see status codes, headers and bodies.

It is deliberately not koordpy's own client: the suite judges API servers, so it must not share that client's
assumptions.
"""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.eventually import PATIENCE

Document = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
"""What kubectl accepts when it asks for discovery: all groups in one answer."""

GROUP_VERSIONS = {
    "deployments": "apps/v1",
    "replicasets": "apps/v1",
    "leases": "coordination.k8s.io/v1",
    "poddisruptionbudgets": "policy/v1",
    "priorityclasses": "scheduling.k8s.io/v1",
    "customresourcedefinitions": "apiextensions.k8s.io/v1",
    "mutatingwebhookconfigurations": "admissionregistration.k8s.io/v1",
    "validatingwebhookconfigurations": "admissionregistration.k8s.io/v1",
}
"""Where the resources outside the core group live."""


class Collection:
    """All objects of one resource, in one namespace or in the cluster; every method is one request."""

    def __init__(self, rest: "Rest", path: str) -> None:
        self.rest = rest
        self.path = path

    def create(self, document: Document, **params: Any) -> httpx.Response:
        return self.rest.request("POST", self.path, document, params=params)

    def get(self, name: str, sub: str = "", **params: Any) -> httpx.Response:
        return self.rest.request("GET", self._object(name, sub), params=params)

    def list(self, accept: str = "application/json", **params: Any) -> httpx.Response:
        return self.rest.request("GET", self.path, params=params, headers={"Accept": accept})

    def replace(self, document: Document, sub: str = "", name: str = "", **params: Any) -> httpx.Response:
        path = self._object(name or document["metadata"]["name"], sub)
        return self.rest.request("PUT", path, document, params=params)

    def patch(self, name: str, patch: Any, kind: str = MERGE, sub: str = "", **params: Any) -> httpx.Response:
        path = self._object(name, sub)
        return self.rest.request("PATCH", path, patch, params=params, headers={"Content-Type": kind})

    def post(self, name: str, sub: str, document: Document, **params: Any) -> httpx.Response:
        return self.rest.request("POST", self._object(name, sub), document, params=params)

    def delete(self, name: str, options: Document | None = None, **params: Any) -> httpx.Response:
        return self.rest.request("DELETE", self._object(name), options, params=params)

    def delete_all(self, options: Document | None = None, **params: Any) -> httpx.Response:
        return self.rest.request("DELETE", self.path, options, params=params)

    @contextmanager
    def watch(
        self, accept: str = "application/json", seconds: float = PATIENCE, **params: Any
    ) -> Iterator["Watch"]:
        """An open watch; it fails when nothing arrives for ``seconds``."""
        with self.rest.http.stream(
            "GET",
            self.path,
            params={"watch": "true", **params},
            headers={"Accept": accept},
            timeout=httpx.Timeout(10, read=seconds),
        ) as response:
            if response.status_code != 200:
                response.read()
            yield Watch(response)

    def _object(self, name: str, sub: str = "") -> str:
        return f"{self.path}/{name}/{sub}" if sub else f"{self.path}/{name}"


class Watch:
    """The events of one open watch, in order."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()

    def next(self) -> Document:
        """The next event: ``{"type": ..., "object": ...}``; fails when the server ends the watch instead."""
        assert self.response.status_code == 200, self.response.text
        for line in self._lines:
            if line:
                event: Document = json.loads(line)
                return event
        raise AssertionError("the server ended the watch where an event was expected")

    def take(self, count: int) -> list[tuple[str, str]]:
        """Type and object name of the next ``count`` events."""
        events = [self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    def rest(self) -> list[Document]:
        """All further events until the server ends the watch."""
        assert self.response.status_code == 200, self.response.text
        return [json.loads(line) for line in self._lines if line]


class Rest:
    """One API server, as the one user that the suite has."""

    def __init__(self, url: str, *, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.http = httpx.Client(
            base_url=url,
            verify=tls if tls is not None else False,  # plain HTTP otherwise
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=PATIENCE,
            trust_env=False,
        )

    def collection(self, plural: str, namespace: str = "", group_version: str = "") -> Collection:
        """The objects of ``plural``; ``group_version`` for custom resources, such as ``example.com/v1``."""
        group_version = group_version or GROUP_VERSIONS.get(plural, "v1")
        root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        middle = f"/namespaces/{namespace}" if namespace else ""
        return Collection(self, f"{root}{middle}/{plural}")

    def get(self, path: str, accept: str = "application/json", **params: Any) -> httpx.Response:
        return self.request("GET", path, params=params, headers={"Accept": accept})

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """One request; ``body`` is sent as JSON unless it is bytes."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        typed = {"Content-Type": "application/json"} if content is not None else {}
        return self.http.request(
            method, path, content=content, params=params, headers=typed | (headers or {})
        )


def ok(response: httpx.Response, code: int | None = None) -> Document:
    """The body of an answer that must be a success (``code`` when given)."""
    wanted = response.is_success if code is None else response.status_code == code
    assert wanted, f"{response.request.method} {response.request.url}: {response.status_code} {response.text}"
    body: Document = response.json()
    return body


def refused(response: httpx.Response, code: int, reason: str) -> Document:
    """The Status object of an answer that must be a failure of this code and reason."""
    seen = f"{response.request.method} {response.request.url}: {response.status_code} {response.text}"
    assert response.status_code == code, seen
    status: Document = response.json()
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure"), seen
    assert (status["code"], status.get("reason", "")) == (code, reason), seen
    assert status["message"], seen
    return status


def causes(status: Document) -> dict[str, str]:
    """Field path to cause of a refusal, such as ``{"spec.containers": "FieldValueRequired"}``."""
    return {cause.get("field", ""): cause["reason"] for cause in status["details"].get("causes", [])}


def names(listed: Document) -> list[str]:
    """The names of a list's items, in the server's order."""
    return [item["metadata"]["name"] for item in listed["items"]]
