"""The other built-in kinds that koordpy reads or people apply: their defaults and their own rules."""

from typing import Any

import pytest

from tests.integration.apiserver.objects import deployment, labelled, pod
from tests.integration.apiserver.rest import Collection, Document, Rest, causes, names, ok, refused


@pytest.fixture
def deployments(rest: Rest, namespace: str) -> Collection:
    return rest.collection("deployments", namespace)


def test_deployment_is_given_its_defaults(deployments: Collection) -> None:
    document = deployment("web")
    del document["spec"]["replicas"]
    spec = ok(deployments.create(document), 201)["spec"]
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_template_must_match_the_selector(deployments: Collection) -> None:
    document = deployment("web")
    document["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    found = causes(refused(deployments.create(document), 422, "Invalid"))
    assert found == {"spec.template.metadata.labels": "FieldValueInvalid"}


def test_selector_of_a_deployment_cannot_change(deployments: Collection) -> None:
    ok(deployments.create(deployment("web")), 201)
    labels = {"app": "other"}
    change = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
    assert "spec.selector" in causes(refused(deployments.patch("web", change), 422, "Invalid"))


def test_scale_subresource_reads_and_writes_replicas(deployments: Collection) -> None:
    ok(deployments.create(deployment("web")), 201)
    scale = ok(deployments.get("web", sub="scale"))
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    assert ok(deployments.patch("web", {"spec": {"replicas": 4}}, sub="scale"))["spec"]["replicas"] == 4
    assert ok(deployments.get("web"))["spec"]["replicas"] == 4


def test_service_is_given_its_defaults(rest: Rest, namespace: str) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    document = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    created = ok(rest.collection("services", namespace).create(document), 201)["spec"]
    assert (created["type"], created["sessionAffinity"]) == ("ClusterIP", "None")
    assert created["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


def test_text_of_a_secret_is_stored_encoded(rest: Rest, namespace: str) -> None:
    secrets = rest.collection("secrets", namespace)
    created = ok(secrets.create({"metadata": {"name": "a"}, "stringData": {"key": "value"}}), 201)
    assert (created["type"], created["data"]) == ("Opaque", {"key": "dmFsdWU="})
    assert "stringData" not in created
    refused(secrets.create({"metadata": {"name": "b"}, "data": {"key": "no base64!"}}), 400, "BadRequest")


def test_service_account_is_an_object_like_others(rest: Rest, namespace: str) -> None:
    accounts = rest.collection("serviceaccounts", namespace)
    ok(accounts.create({"metadata": {"name": "robot"}}), 201)
    assert "robot" in names(ok(accounts.list()))


def budget(**spec: Any) -> Document:
    spec = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}


def test_budget_has_one_bound_only(rest: Rest, namespace: str) -> None:
    budgets = rest.collection("poddisruptionbudgets", namespace)
    refused(budgets.create(budget(minAvailable=1, maxUnavailable=1)), 422, "Invalid")
    created = ok(budgets.create(budget(maxUnavailable="50%")), 201)
    assert (created["spec"]["maxUnavailable"], created["metadata"]["generation"]) == ("50%", 1)
    assert ok(budgets.patch("b", {"spec": {"maxUnavailable": 1}}))["metadata"]["generation"] == 2


def test_owner_must_be_named_completely(pods: Collection) -> None:
    document = pod("a")
    document["metadata"]["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}]
    assert causes(refused(pods.create(document), 422, "Invalid")) == {
        "metadata.ownerReferences.uid": "FieldValueInvalid"
    }


def test_pod_has_one_controller_at_most(pods: Collection) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    document = labelled(pod("a"), app="web")
    document["metadata"]["ownerReferences"] = [owner | {"uid": "1"}, owner | {"uid": "2"}]
    found = causes(refused(pods.create(document), 422, "Invalid"))
    assert found == {"metadata.ownerReferences": "FieldValueInvalid"}
