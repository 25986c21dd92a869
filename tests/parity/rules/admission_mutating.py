"""The pod mutating webhook, bytes in, bytes out: `koordpy.admission` with the in-tree handlers."""

import base64
import copy
import json
from typing import Any

from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle
from koordpy.admission.review import review
from koordpy.api import json_patch
from koordpy.api.scheme import RESOURCES, decode
from koordpy.cluster.cluster import Cluster

from ..vectors import equal
from .admission_review import INSTALLED

TYPES = {resource.kind: type_ for type_, resource in RESOURCES.items()}


class Draws:
    """The random numbers of a case, in order; a call too many raises."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = list(numbers)

    def randint(self, a: int, b: int, /) -> int:
        return self.numbers.pop(0)


def cluster_of(objects: list[dict[str, Any]]) -> Cluster:
    cluster = Cluster()
    for document in objects:
        type_ = TYPES.get(document["kind"])
        if type_ is not None:
            cluster.store(type_).apply(decode(type_, json.dumps(document).encode()))
    return cluster


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    return mutate("/mutate-pod", case_in, case_in["gates"])


def mutate(path: str, case_in: dict[str, Any], gates: dict[str, bool]) -> dict[str, Any]:
    draws = Draws(case_in["draws"])
    handle = Handle(cluster_of(case_in["objects"]), feature_gates(gates), draws)
    chain = build_chains(AdmissionConfig(), handle, INSTALLED)[path]
    request = case_in["request"]
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    answer = json.loads(review(chain, json.dumps(body).encode()))
    response = answer["response"]
    assert answer["apiVersion"] == body["apiVersion"]
    assert response["uid"] == request["uid"]
    assert not draws.numbers, "fewer random numbers were drawn than by Koordinator"
    out = {"allowed": response["allowed"], "code": response["status"]["code"]}
    if "message" in response["status"]:
        out["message"] = response["status"]["message"]
    if "patch" in response:
        assert response["patchType"] == "JSONPatch"
        operations = json.loads(base64.b64decode(response["patch"]))
        out["object"] = json_patch.apply(copy.deepcopy(request["object"]), operations)
    return out


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    """Compare verdict and resulting object; messages differ, the order in node affinity does not count."""
    if expected.get("panic"):
        return True
    before = case_in["request"].get("object")
    return (
        ours["allowed"] is expected["allowed"]
        and ours["code"] == expected["code"]
        and equal(normal(ours.get("object", before)), normal(expected.get("object", before)))
    )


def normal(document: Any) -> Any:
    """Sort the expressions of every required node selector term."""
    node: Any = copy.deepcopy(document)
    inner = node
    for name in ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        inner = inner.get(name) if isinstance(inner, dict) else None
    for term in (inner or {}).get("nodeSelectorTerms") or []:
        if isinstance(term, dict) and term.get("matchExpressions"):
            term["matchExpressions"].sort(
                key=lambda item: json.dumps(item, sort_keys=True, separators=(",", ":"))
            )
    return node
