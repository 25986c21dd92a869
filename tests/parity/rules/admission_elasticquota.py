"""The ElasticQuota webhooks on one quota tree, bytes in, bytes out, for a sequence of requests."""

import re
from typing import Any

from koordpy.api import resource_list
from koordpy.api.quota.reading import read
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.topology import QuotaTopology

from ..vectors import equal
from .admission_review import ask, chains_on, fill

MUTATE = "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
VALIDATE = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
LIBRARY = re.compile(
    "json: |invalid character|unexpected end|quantities must match|unable to parse|there is no content"
)
CHOICE = re.compile(r"(?<= child pods: ).*|(?<=Key failed: )\S+(?='s )|(?<=losed :).*|(?<=from child )\S+")


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    cluster = Cluster()
    chains = chains_on(cluster, [MUTATE, VALIDATE], case_in["gates"])
    topology = cluster.shared(QuotaTopology)
    fill(cluster, [document for document in case_in["objects"] if document["kind"] == "Pod"])
    for document in case_in["objects"]:
        if document["kind"] == "ElasticQuota":
            topology.added(read(document))
    responses = []
    for step in case_in["requests"]:
        request = dict(step["request"])
        answer: dict[str, Any] = {"allowed": True, "code": 200}
        created = None
        if request["operation"] == "CREATE":
            answer = ask(chains[MUTATE], request)
            created = answer.get("object")
            answer["by"] = "mutate"
            if created is not None:
                request["object"] = created
        if answer["allowed"]:
            answer = {**ask(chains[VALIDATE], request), "by": "validate"}
        if answer["allowed"]:
            del answer["by"]
        if created is not None:
            answer["object"] = created
        responses.append(answer)
        if step.get("watch") and answer["allowed"] and request["resource"]["resource"] == "elasticquotas":
            show(topology, request)
    return {"responses": responses, "topology": topology.document()}


def show(topology: QuotaTopology, request: dict[str, Any]) -> None:
    """The watch event of a change."""
    if request.get("subResource"):
        return
    match request["operation"]:
        case "CREATE":
            topology.added(read(request["object"]))
        case "UPDATE":
            topology.updated(read(request["oldObject"]), read(request["object"]))
        case "DELETE":
            topology.deleted(read(request["oldObject"]))


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    return len(ours["responses"]) == len(expected["responses"]) and (
        all(map(same_response, ours["responses"], expected["responses"]))
        and topology_of(ours) == topology_of(expected)
    )


def same_response(ours: dict[str, Any], expected: dict[str, Any]) -> bool:
    return (
        all(ours.get(name) == expected.get(name) for name in ("allowed", "code", "by"))
        and equal(ours.get("object"), expected.get("object"))
        and ("message" not in expected or same_message(ours.get("message", ""), expected["message"]))
    )


def same_message(ours: str, expected: str) -> bool:
    """Compare up to the text of a library; lists in any order, pods and children whichever are named."""
    own, *library = LIBRARY.split(expected, maxsplit=1)
    return ours.startswith(own) if library else unordered(ours) == unordered(expected)


def unordered(message: str) -> str:
    return re.sub(r"\[(.*?)\]", lambda match: str(sorted(match[1].split())), CHOICE.sub("", message))


def topology_of(out: dict[str, Any]) -> Any:
    """The tree, by value."""
    infos = {
        name: {**info, "max": amounts(info.get("max")), "min": amounts(info.get("min"))}
        for name, info in out["topology"]["quotaInfoMap"].items()
    }
    return infos, {name: sorted(names or ()) for name, names in out["topology"]["quotaHierarchyInfo"].items()}


def amounts(wire: dict[str, Any] | None) -> Any:
    return resource_list.from_wire(wire or {})
