"""GET of one object."""

from tests.integration.apiserver.objects import config_map, pod
from tests.integration.apiserver.rest import Collection, Rest, ok, refused


def test_object_is_read_as_it_was_created(maps: Collection) -> None:
    created = ok(maps.create(config_map("a", key="value")), 201)
    assert ok(maps.get("a"), 200) == created


def test_missing_object_is_404(maps: Collection) -> None:
    status = refused(maps.get("missing"), 404, "NotFound")
    assert status["message"] == 'configmaps "missing" not found'
    assert status["details"] == {"name": "missing", "kind": "configmaps"}


def test_missing_object_of_a_group_names_the_group(rest: Rest, namespace: str) -> None:
    status = refused(rest.collection("deployments", namespace).get("missing"), 404, "NotFound")
    assert status["message"] == 'deployments.apps "missing" not found'
    assert status["details"] == {"name": "missing", "group": "apps", "kind": "deployments"}


def test_object_of_another_namespace_is_404(rest: Rest, maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    refused(rest.collection("configmaps", "default").get("a"), 404, "NotFound")


def test_status_subresource_reads_the_whole_object(pods: Collection) -> None:
    created = ok(pods.create(pod("a")), 201)
    assert ok(pods.get("a", sub="status"), 200) == created


def test_answer_is_json(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    assert maps.get("a").headers["Content-Type"] == "application/json"


def test_only_the_metadata_is_served_to_who_asks_for_it(maps: Collection) -> None:
    created = ok(maps.create(config_map("a", key="value")), 201)
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    partial = ok(maps.rest.get(f"{maps.path}/a", accept))
    assert (partial["kind"], partial["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert partial["metadata"] == created["metadata"]
    assert "data" not in partial


def test_accept_that_cannot_be_met_is_406(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    refused(maps.rest.get(f"{maps.path}/a", "text/html"), 406, "NotAcceptable")


def test_any_accept_gets_json(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    response = maps.rest.get(f"{maps.path}/a", "*/*")
    assert ok(response)["metadata"]["name"] == "a"


def test_protobuf_first_falls_back_to_json_where_it_is_second(rest: Rest) -> None:
    # Clients written in Go send this for built-in kinds; a server may choose either.
    accept = "application/vnd.kubernetes.protobuf,application/json"
    response = rest.get("/api/v1/namespaces/default", accept)
    assert response.status_code == 200
    assert response.headers["Content-Type"] in (
        "application/json",
        "application/vnd.kubernetes.protobuf",
    )
