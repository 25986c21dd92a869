"""HorizontalPodAutoscalers in both of their versions, and certificate signing requests."""

import base64
from collections.abc import Callable

from tests.integration.apiserver.rest import Document, Rest, ok, refused

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def cpu(percent: int) -> list[Document]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def test_autoscaler_is_the_same_in_both_versions(rest: Rest, namespace: str) -> None:
    old = rest.collection("horizontalpodautoscalers", namespace, "autoscaling/v1")
    new = rest.collection("horizontalpodautoscalers", namespace, "autoscaling/v2")
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 60}
    ok(old.create({"metadata": {"name": "a"}, "spec": spec}), 201)
    assert ok(new.get("a"))["spec"]["metrics"] == cpu(60)
    found = ok(new.get("a"))
    found["spec"]["metrics"] = cpu(70)
    ok(new.replace(found))
    assert ok(old.get("a"))["spec"]["targetCPUUtilizationPercentage"] == 70
    (item,) = ok(old.list())["items"]
    assert (item["spec"]["minReplicas"], "metrics" in item["spec"]) == (1, False)


def test_autoscaler_without_metrics_gets_the_default(rest: Rest, namespace: str) -> None:
    new = rest.collection("horizontalpodautoscalers", namespace, "autoscaling/v2")
    made = ok(
        new.create({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3}}), 201
    )
    assert made["spec"]["metrics"] == cpu(80)


def test_autoscaler_with_limits_out_of_order_is_refused(rest: Rest, namespace: str) -> None:
    new = rest.collection("horizontalpodautoscalers", namespace, "autoscaling/v2")
    spec = {"scaleTargetRef": TARGET, "minReplicas": 5, "maxReplicas": 3}
    answer = refused(new.create({"metadata": {"name": "a"}, "spec": spec}), 422, "Invalid")
    assert "spec.maxReplicas" in answer["message"]


def test_autoscaler_with_fields_of_other_types_is_refused(rest: Rest, namespace: str) -> None:
    for version, spec in (("v1", {"minReplicas": "x"}), ("v2", {"metrics": [1]}), ("v2", "x")):
        own = rest.collection("horizontalpodautoscalers", namespace, f"autoscaling/{version}")
        assert own.create({"metadata": {"name": "a"}, "spec": spec}).status_code == 400


def test_signing_request_is_approved_by_its_subresource(rest: Rest, unique: Callable[[str], str]) -> None:
    own, name = rest.collection("certificatesigningrequests", "", "certificates.k8s.io/v1"), unique("csr")
    spec = {"signerName": "example.com/test", "usages": ["client auth"]}
    body = {"metadata": {"name": name}, "spec": spec}
    refused(own.create(body), 422, "Invalid")
    request = base64.b64encode(_REQUEST).decode()
    made = ok(own.create({**body, "spec": {**spec, "request": request}}), 201)
    made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Tested"}]}
    assert "conditions" not in ok(own.replace(made))["status"]
    approved = ok(own.replace({**ok(own.get(name)), "status": made["status"]}, "approval"))
    assert approved["status"]["conditions"][0]["type"] == "Approved"


_REQUEST = b"""-----BEGIN CERTIFICATE REQUEST-----
MIHJMHECAQAwDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABJ5Dv+1YTGxZ3Fbz8bLx2AtOV36/udABE1/gp7yF3CmhO0fyKfdAKZY13iD0
AnvDVt9NkbqEOBmtPKFy++RZNbegADAKBggqhkjOPQQDAgNIADBFAiEAtg77sI6s
bpeuDdV8VCFPQVNtAIRh8WFZQGbfAGgvDXsCIDbTH4iCIqCa+NI9vGQ1VErbbk7x
k46hSMB6CXZtUDpT
-----END CERTIFICATE REQUEST-----
"""
