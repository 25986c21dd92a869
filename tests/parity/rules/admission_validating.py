"""The pod validating webhook, bytes in, bytes out: `koordpy.admission` with the in-tree handlers."""

import asyncio
import json
import re
from typing import Any

from koordpy import data
from koordpy.admission.chain import Chain
from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle
from koordpy.admission.review import review, review_waiting
from koordpy.api.core import Namespace
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import ObjectMeta
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.store import Store
from koordpy.embedded.apiserver import ApiServer

from .admission_mutating import Draws, cluster_of
from .admission_review import INSTALLED

ERROR = re.compile(
    r"(?P<path>[^ :]+): (?P<kind>Required value|Forbidden|Invalid value)"
    r'(?:: "(?P<value>[^"]*)")?: '
)


OWN_TEXTS = ("required label", "elastic quota ", "more than one elastic quota ")
CHILD_REQUEST = "quota.scheduling.koordinator.sh/child-request"
CHARGES = re.compile(r"exceeded quota: (\S+), requested: (.*), used: (.*), limited: (.*)")


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    if case_in["gates"].get("EnableQuotaAdmission"):
        return asyncio.run(run_with_quotas(case_in))
    chain = chain_of(case_in, cluster_of(case_in["objects"]), None)
    return verdict(review(chain, body_of(case_in)))


async def run_with_quotas(case_in: dict[str, Any]) -> dict[str, Any]:
    """Ask a webhook whose quotas are on an API server; also tell what was written there."""
    quotas = [document for document in case_in["objects"] if document["kind"] == "ElasticQuota"]
    cluster = cluster_of([document for document in case_in["objects"] if document not in quotas])
    store = cluster.store(ElasticQuota)
    resource = resource_of(ElasticQuota)
    async with ApiServer(crds=[data.deploy("crds", "elasticquotas.scheduling.sigs.k8s.io.yaml")]) as server:
        client = Client(Connection.to(Access(server.url)))
        try:
            for name in {document["metadata"]["namespace"] for document in quotas} - {"kube-system"}:
                await client.create(Namespace(metadata=ObjectMeta(name=name)))
            for document in quotas:
                namespace = document["metadata"]["namespace"]
                store.apply(decode(ElasticQuota, await client.create_raw(resource, namespace, document)))
            out = verdict(await review_waiting(chain_of(case_in, cluster, client), body_of(case_in)))
            found = {quota.metadata.key: quota for quota in await client.list_all(ElasticQuota)}
        finally:
            await client.close()
    written = {
        key: quota.metadata.annotations[CHILD_REQUEST]
        for key, quota in found.items()
        if quota.metadata.resource_version != known(store, key)
    }
    return out | ({"childRequests": written} if written else {})


def known(store: Store[ElasticQuota], key: str) -> str:
    quota = store.by_key(key)
    return quota.metadata.resource_version if quota is not None else ""


def chain_of(case_in: dict[str, Any], cluster: Cluster, client: Client | None) -> Chain:
    handle = Handle(cluster, feature_gates(case_in["gates"]), Draws([]), client=client)
    return build_chains(AdmissionConfig(), handle, INSTALLED)["/validate-pod"]


def body_of(case_in: dict[str, Any]) -> bytes:
    envelope = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
    return json.dumps(envelope | {"request": case_in["request"]}).encode()


def verdict(answer: bytes) -> dict[str, Any]:
    response = json.loads(answer)["response"]
    assert "patch" not in response
    out = {"allowed": response["allowed"], "code": response["status"]["code"]}
    if "message" in response["status"]:
        out["message"] = response["status"]["message"]
    return out


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    """Compare verdicts and what is wrong with which field; other texts where they are Koordinator's own."""
    if (ours["allowed"], ours["code"]) != (expected["allowed"], expected["code"]):
        return False
    if charges(ours) != charges(expected):
        return False
    message = expected.get("message", "")
    if "errors" in expected:
        return errors(ours.get("message", "")) == {(path, value) for path, _, value in expected["errors"]}
    if message.startswith("exceeded quota"):
        return CHARGES.findall(ours["message"]) == CHARGES.findall(message) != []
    return not message.startswith(OWN_TEXTS) or ours.get("message") == message


def charges(out: dict[str, Any]) -> dict[str, Any]:
    """Return what was written to quotas, with the annotations read."""
    return {key: json.loads(text) for key, text in out.get("childRequests", {}).items()}


def errors(message: str) -> set[tuple[str, str]]:
    """Return path and bad value of every field error of a message."""
    found = ERROR.finditer(message.removeprefix("["))
    return {(match["path"], match["value"] or "") for match in found}


def group(tag: str | None, expected: dict[str, Any]) -> str:
    """Of the many lines about quotas, let a sample have enough that charge them or find them full."""
    if "childRequests" in expected:
        return "charged"
    return "exceeded" if expected.get("message", "").startswith("exceeded quota") else tag or ""
