"""POST: names, conflicts, dry runs, and what is wrong with a document."""

import re
from collections.abc import Callable

import pytest

from tests.integration.apiserver.objects import config_map, node, pod
from tests.integration.apiserver.rest import Collection, Rest, causes, ok, refused


def test_server_fills_in_the_metadata(maps: Collection, namespace: str) -> None:
    created = ok(maps.create(config_map("a", key="value")), 201)
    metadata = created["metadata"]
    assert (created["apiVersion"], created["kind"]) == ("v1", "ConfigMap")
    assert (metadata["name"], metadata["namespace"]) == ("a", namespace)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0
    assert created["data"] == {"key": "value"}


def test_kind_and_version_may_be_left_out(maps: Collection) -> None:
    created = ok(maps.create({"metadata": {"name": "a"}}), 201)
    assert created["kind"] == "ConfigMap"


def test_uid_and_creation_time_of_the_client_are_replaced(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
    metadata = ok(maps.create(document), 201)["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] > "2020"


def test_generate_name_appends_five_characters(maps: Collection) -> None:
    document = {"metadata": {"generateName": "web-"}}
    first, second = (ok(maps.create(document), 201)["metadata"] for _ in range(2))
    assert first["generateName"] == "web-"
    assert re.fullmatch(r"web-[a-z0-9]{5}", first["name"])
    assert first["name"] != second["name"]


def test_name_wins_over_generate_name(maps: Collection) -> None:
    metadata = {"name": "a", "generateName": "web-"}
    assert ok(maps.create({"metadata": metadata}), 201)["metadata"]["name"] == "a"


def test_taken_name_is_refused(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    status = refused(maps.create(config_map("a")), 409, "AlreadyExists")
    assert status["message"] == 'configmaps "a" already exists'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_dry_run_answers_as_if_but_stores_nothing(maps: Collection) -> None:
    created = ok(maps.create(config_map("a"), dryRun="All"), 201)
    assert created["metadata"]["uid"]
    refused(maps.get("a"), 404, "NotFound")


def test_dry_run_of_another_kind_is_refused(maps: Collection) -> None:
    refused(maps.create(config_map("a"), dryRun="Some"), 422, "Invalid")


def test_missing_namespace_is_404(rest: Rest) -> None:
    status = refused(rest.collection("configmaps", "no-such").create(config_map("a")), 404, "NotFound")
    assert status["message"] == 'namespaces "no-such" not found'
    assert status["details"] == {"name": "no-such", "kind": "namespaces"}


def test_namespace_of_the_body_must_be_that_of_the_url(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"]["namespace"] = "other"
    refused(maps.create(document), 400, "BadRequest")


def test_other_kind_than_the_urls_is_refused(maps: Collection) -> None:
    refused(maps.create(pod("a")), 400, "BadRequest")


def test_other_version_than_the_urls_is_refused(maps: Collection) -> None:
    refused(maps.create(config_map("a") | {"apiVersion": "apps/v1"}), 400, "BadRequest")


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b"", b'{"metadata": {"name": 5}}'])
def test_body_that_is_no_object_of_the_kind_is_400(maps: Collection, body: bytes) -> None:
    refused(maps.rest.request("POST", maps.path, body), 400, "BadRequest")


def test_yaml_is_read_too(maps: Collection) -> None:
    headers = {"Content-Type": "application/yaml"}
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: value}\n"
    created = ok(maps.rest.request("POST", maps.path, body, headers=headers), 201)
    assert created["data"] == {"key": "value"}


def test_other_media_type_is_415(maps: Collection) -> None:
    headers = {"Content-Type": "text/plain"}
    refused(maps.rest.request("POST", maps.path, b"{}", headers=headers), 415, "UnsupportedMediaType")


def test_resource_version_must_not_be_set(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"]["resourceVersion"] = "1"
    response = maps.create(document)
    assert response.status_code >= 400
    assert "resourceVersion should not be set on objects to be created" in response.json()["message"]


def test_name_is_required(maps: Collection) -> None:
    status = refused(maps.create({"metadata": {}}), 422, "Invalid")
    assert causes(status) == {"metadata.name": "FieldValueRequired"}
    assert "name or generateName is required" in status["message"]


def test_bad_name_is_refused_with_its_field(maps: Collection) -> None:
    status = refused(maps.create(config_map("Not_A_Name")), 422, "Invalid")
    assert causes(status) == {"metadata.name": "FieldValueInvalid"}
    assert status["details"]["kind"] == "ConfigMap"
    assert status["message"].startswith('ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value:')


def test_bad_labels_are_refused(maps: Collection) -> None:
    status = refused(maps.create(config_map("a", {"tier": "no spaces"})), 422, "Invalid")
    assert causes(status) == {"metadata.labels": "FieldValueInvalid"}


def test_bad_annotation_key_is_refused(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"]["annotations"] = {"a/b/c": "x"}
    assert causes(refused(maps.create(document), 422, "Invalid")) == {
        "metadata.annotations": "FieldValueInvalid"
    }


def test_unknown_fields_are_dropped(maps: Collection) -> None:
    assert "colour" not in ok(maps.create(config_map("a") | {"colour": "red"}), 201)


def test_pod_without_containers_is_refused(pods: Collection) -> None:
    status = refused(pods.create(pod("a", containers=[])), 422, "Invalid")
    assert causes(status) == {"spec.containers": "FieldValueRequired"}


def test_every_wrong_field_of_a_pod_is_named(pods: Collection) -> None:
    document = pod(
        "a", restartPolicy="Sometimes", containers=[{"name": "Main", "image": "x"}, {"image": "y"}]
    )
    found = causes(refused(pods.create(document), 422, "Invalid"))
    assert found["spec.restartPolicy"] == "FieldValueNotSupported"
    assert found["spec.containers[0].name"] == "FieldValueInvalid"
    assert found["spec.containers[1].name"] == "FieldValueRequired"


def test_containers_of_a_pod_have_distinct_names(pods: Collection) -> None:
    twice = [{"name": "main", "image": "x"}, {"name": "main", "image": "y"}]
    found = causes(refused(pods.create(pod("a", containers=twice)), 422, "Invalid"))
    assert found == {"spec.containers[1].name": "FieldValueDuplicate"}


def test_request_above_its_limit_is_refused(pods: Collection) -> None:
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    containers = [{"name": "main", "image": "x", "resources": resources}]
    found = causes(refused(pods.create(pod("a", containers=containers)), 422, "Invalid"))
    assert found == {"spec.containers[0].resources.requests": "FieldValueInvalid"}


def test_extended_resource_needs_request_equal_to_limit(pods: Collection) -> None:
    resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}
    containers = [{"name": "main", "image": "x", "resources": resources}]
    found = causes(refused(pods.create(pod("a", containers=containers)), 422, "Invalid"))
    assert found == {"spec.containers[0].resources.requests": "FieldValueInvalid"}


def test_quantity_that_is_none_is_400(pods: Collection) -> None:
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "many"}}}]
    refused(pods.create(pod("a", containers=containers)), 400, "BadRequest")


def test_bad_toleration_is_refused(pods: Collection) -> None:
    tolerations = [{"key": "a", "operator": "Exists", "value": "b"}]
    found = causes(refused(pods.create(pod("a", tolerations=tolerations)), 422, "Invalid"))
    assert found == {"spec.tolerations[0].operator": "FieldValueInvalid"}


def test_node_taint_needs_an_effect(rest: Rest, unique: Callable[[str], str]) -> None:
    document = node(unique("node"), taints=[{"key": "a", "value": "b"}])
    found = causes(refused(rest.collection("nodes").create(document), 422, "Invalid"))
    assert found == {"metadata.taints[0].effect": "FieldValueRequired"}  # kube-apiserver's own spelling


def test_node_keeps_the_status_it_is_created_with(rest: Rest, unique: Callable[[str], str]) -> None:
    created = ok(rest.collection("nodes").create(node(unique("node"))), 201)
    assert created["status"]["allocatable"]["cpu"] == "8"
    assert "namespace" not in created["metadata"]


def test_strict_field_validation_refuses_unknown_fields(maps: Collection) -> None:
    status = refused(
        maps.create(config_map("a") | {"colour": "red"}, fieldValidation="Strict"), 400, "BadRequest"
    )
    assert 'unknown field "colour"' in status["message"]


def test_unknown_fields_are_warned_about_by_default(maps: Collection) -> None:
    response = maps.create(config_map("a") | {"colour": "red"}, fieldValidation="Warn")
    assert ok(response, 201)
    assert response.headers["Warning"] == '299 - "unknown field \\"colour\\""'


def test_body_without_a_media_type_is_json_where_the_client_asks_for_json(maps: Collection) -> None:
    body, headers = b'{"metadata": {"name": "a"}}', {"Accept": "application/json"}
    answer = maps.rest.http.post(maps.path, content=body, headers=headers)
    assert "Content-Type" not in answer.request.headers
    assert ok(answer, 201)["metadata"]["name"] == "a"
