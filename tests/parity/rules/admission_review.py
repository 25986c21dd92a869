"""Asking the in-tree admission handlers as kube-apiserver does: an AdmissionReview in, one out."""

import base64
import copy
import json
import random
from typing import Any

from koordpy.admission.chain import Chain
from koordpy.admission.config import DEFAULT_HANDLERS, AdmissionConfig, build_chains, installed
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.admission.review import review
from koordpy.api import json_patch
from koordpy.api.scheme import RESOURCES, decode
from koordpy.cluster.cluster import Cluster

TYPES = {resource.kind: type_ for type_, resource in RESOURCES.items()}
INSTALLED = installed()
"""Looked for once: that takes longer than most vectors."""


def chain_of(
    path: str, objects: list[dict[str, Any]], gates: dict[str, bool], args: dict[str, Any] | None = None
) -> Chain:
    """The chain of a path, its handlers with `args`, for a cluster that holds `objects`."""
    cluster = Cluster()
    chain = chains_on(cluster, [path], gates, args)[path]
    fill(cluster, objects)
    return chain


def chains_on(
    cluster: Cluster, paths: list[str], gates: dict[str, bool], args: dict[str, Any] | None = None
) -> dict[str, Chain]:
    """The chains of paths with the in-tree handlers that they have."""
    prefixes = tuple(f"{path.strip('/')}." for path in paths)
    enabled = [
        HandlerEntry(name=name, args=args or {}) for name in DEFAULT_HANDLERS if name.startswith(prefixes)
    ]
    config = AdmissionConfig(enabled=enabled, disabled=["*"])
    return build_chains(config, Handle(cluster, feature_gates(gates), random.Random(1)), INSTALLED)


def fill(cluster: Cluster, objects: list[dict[str, Any]]) -> None:
    for document in objects:
        type_ = TYPES[document["kind"]]
        cluster.store(type_).apply(decode(type_, json.dumps(document).encode()))


def ask(chain: Chain, request: dict[str, Any]) -> dict[str, Any]:
    """The answer in the shape that vectors have."""
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    response = json.loads(review(chain, json.dumps(body).encode()))["response"]
    assert response["uid"] == request["uid"]
    status = response["status"]
    out = {"allowed": response["allowed"], "code": status["code"]}
    message = status.get("message")
    if message is not None:
        out["message"] = message
        if message.startswith("___{"):
            out["reason"] = json.loads(message.strip("_"))["reason"]
    if "patch" in response:
        operations = json.loads(base64.b64decode(response["patch"]))
        out["object"] = json_patch.apply(copy.deepcopy(request["object"]), operations)
    return out
