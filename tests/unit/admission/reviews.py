"""AdmissionReviews and handlers for tests of the admission framework."""

import base64
import json
import random
from collections.abc import Callable
from typing import Any, ClassVar

from koordpy.admission.chain import Chain
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle, MutatingHandler, Request, ValidatingHandler
from koordpy.admission.review import review
from koordpy.api.document import Document
from koordpy.api.plugin import NoArgs, PluginArgs
from koordpy.cluster.cluster import Cluster

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p1"},
    "spec": {"containers": [{"name": "a", "resources": {}}]},
    "future": {"field": 1},
}


def handle(**gates: bool) -> Handle:
    return Handle(Cluster(), feature_gates(gates), random.Random(1))


def body(pod: Any = POD, *, api_version: str | None = "admission.k8s.io/v1", **request: Any) -> bytes:
    sent = {
        "uid": "u1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "ns1",
        "name": "p1",
        "object": pod,
    } | request
    envelope: dict[str, Any] = {"kind": "AdmissionReview", "request": sent}
    if api_version is not None:
        envelope["apiVersion"] = api_version
    return json.dumps(envelope).encode()


def ask(chain: Chain, sent: bytes, content_type: str = "application/json") -> dict[str, Any]:
    """Return the response; its patch, if any, decoded."""
    response: dict[str, Any] = json.loads(review(chain, sent, content_type))["response"]
    if "patch" in response:
        response["patch"] = json.loads(base64.b64decode(response["patch"]))
    return response


def mutating(
    mutate: Callable[[Request, Document], Any], path: str = "/mutate-pod", name: str = "Test"
) -> MutatingHandler:
    call = mutate
    at, named = path, name

    class Mutating(MutatingHandler):
        name: ClassVar[str] = named
        path: ClassVar[str] = at

        def mutate(self, request: Request, document: Document) -> None:
            call(request, document)

    return Mutating(NoArgs(), handle())


def validating(validate: Callable[[Request], Any], path: str = "/check") -> ValidatingHandler:
    call = validate
    at = path

    class Validating(ValidatingHandler):
        name: ClassVar[str] = "Test"
        path: ClassVar[str] = at

        def validate(self, request: Request) -> None:
            call(request)

    return Validating(NoArgs(), handle())


class LabelArgs(PluginArgs):
    value: str = "yes"


class SetLabel(MutatingHandler):
    """A third party's handler."""

    name: ClassVar[str] = "SetLabel"
    path: ClassVar[str] = "/mutate-pod"
    args: LabelArgs

    def mutate(self, request: Request, document: Document) -> None:
        document.set(("metadata", "labels", "set"), self.args.value)


class GatedHandler(SetLabel):
    name: ClassVar[str] = "Gated"
    feature: ClassVar[str | None] = "MultiQuotaTree"


class NotAHandler:
    pass
