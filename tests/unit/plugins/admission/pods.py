"""A pod webhook with the in-tree handlers, and objects to fill its cluster with."""

import base64
import json
from collections.abc import Iterable
from typing import Any

from koordpy.admission.chain import Chain
from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle
from koordpy.admission.review import review
from koordpy.api import json_patch
from koordpy.api.scheme import RESOURCES, decode
from koordpy.cluster.cluster import Cluster

TYPES = {resource.kind: type_ for type_, resource in RESOURCES.items()}
BATCH = {"koordinator.sh/qosClass": "BE"}


class Rolls:
    """Random numbers that are known beforehand."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def randint(self, a: int, b: int, /) -> int:
        assert (a, b) == (0, 99)
        return self.numbers.pop(0)


def profile(name: str = "p", *, marks: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a profile; `marks` are its own annotations, not those it writes."""
    metadata = {"name": name, "annotations": marks or {}}
    return {"kind": "ClusterColocationProfile", "metadata": metadata, "spec": spec}


def priority_class(name: str, value: int, policy: str | None = None) -> dict[str, Any]:
    return {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, "preemptionPolicy": policy}


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def container(name: str = "main", **resources: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "resources": resources}


def pod(
    *containers: dict[str, Any],
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "pod", "namespace": "ns"}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers or [container()]), **spec},
    }


def handle(*objects: dict[str, Any], rolls: Iterable[int] = (), **gates: bool) -> Handle:
    cluster = Cluster()
    for document in objects:
        type_ = TYPES[document["kind"]]
        cluster.store(type_).apply(decode(type_, json.dumps(document).encode()))
    return Handle(cluster, feature_gates(gates), Rolls(*rolls))


def respond(
    admitted: dict[str, Any],
    to: Handle,
    path: str = "/mutate-pod",
    *,
    chain: Chain | None = None,
    **request: Any,
) -> dict[str, Any]:
    """Return the response to the creation of a pod; `object` is the pod with the patch applied.

    Further members of the request (`operation`, `oldObject`) may be given by name.
    """
    chain = chain or build_chains(AdmissionConfig(), to)[path]
    sent = {
        "uid": "u",
        "operation": "CREATE",
        "namespace": "ns",
        "resource": {"resource": "pods"},
        "object": admitted,
    } | request
    response: dict[str, Any] = json.loads(review(chain, json.dumps({"request": sent}).encode()))["response"]
    operations = json.loads(base64.b64decode(response.get("patch", b"W10=")))
    response["object"] = json_patch.apply(json.loads(json.dumps(admitted)), operations)
    return response


def refusal(admitted: dict[str, Any], *objects: dict[str, Any], gates: Any = (), **request: Any) -> str:
    """Return why the validating webhook refuses a pod, empty if it does not."""
    response = respond(admitted, handle(*objects, **dict(gates)), "/validate-pod", **request)
    assert response["status"]["code"] == (200 if response["allowed"] else 400)
    message: str = response["status"].get("message", "")
    assert bool(message) is not response["allowed"]
    return message


def mutated(
    admitted: dict[str, Any], *objects: dict[str, Any], rolls: Iterable[int] = (), **gates: bool
) -> dict[str, Any]:
    """Return a pod as it is after admission."""
    response = respond(admitted, handle(*objects, rolls=rolls, **gates))
    assert response["allowed"], response
    result: dict[str, Any] = response["object"]
    return result
