"""Discovery: the first requests of clients."""

import pytest

from tests.integration.apiserver.rest import AGGREGATED, Document, Rest, ok, refused


def resources(listed: Document) -> dict[str, Document]:
    return {resource["name"]: resource for resource in listed["resources"]}


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz"])
def test_health_endpoints_answer_ok(rest: Rest, path: str) -> None:
    response = rest.get(path)
    assert (response.status_code, response.text) == (200, "ok")


def test_version_names_major_minor_and_git_version(rest: Rest) -> None:
    version = ok(rest.get("/version"))
    assert version["major"] == "1"
    assert version["gitVersion"].startswith(f"v1.{version['minor'].rstrip('+')}.")


def test_core_versions_are_listed(rest: Rest) -> None:
    versions = ok(rest.get("/api"))
    assert versions["kind"] == "APIVersions"
    assert versions["versions"] == ["v1"]


def test_groups_are_listed_with_their_preferred_version(rest: Rest) -> None:
    listed = ok(rest.get("/apis"))
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group["preferredVersion"] for group in listed["groups"]}
    assert groups["apps"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert {"policy", "scheduling.k8s.io", "coordination.k8s.io", "apiextensions.k8s.io"} <= set(groups)
    assert {"admissionregistration.k8s.io", "events.k8s.io"} <= set(groups)


def test_one_group_is_described(rest: Rest) -> None:
    group = ok(rest.get("/apis/policy"))
    assert (group["kind"], group["name"]) == ("APIGroup", "policy")
    assert {"groupVersion": "policy/v1", "version": "v1"} in group["versions"]


def test_core_resources_are_described_for_clients(rest: Rest) -> None:
    listed = ok(rest.get("/api/v1"))
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "v1")
    found = resources(listed)
    pods = found["pods"]
    assert (pods["kind"], pods["namespaced"], pods["singularName"]) == ("Pod", True, "pod")
    assert pods["shortNames"] == ["po"]
    assert {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} <= set(
        pods["verbs"]
    )
    assert (found["nodes"]["namespaced"], found["nodes"]["shortNames"]) == (False, ["no"])
    assert {"configmaps", "secrets", "services", "namespaces", "events", "persistentvolumes"} <= set(found)


def test_subresources_are_described(rest: Rest) -> None:
    found = resources(ok(rest.get("/api/v1")))
    assert {"pods/status", "pods/binding", "pods/eviction", "nodes/status"} <= set(found)
    eviction = found["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")


def test_resources_of_a_group_are_described(rest: Rest) -> None:
    found = resources(ok(rest.get("/apis/policy/v1")))
    assert found["poddisruptionbudgets"]["shortNames"] == ["pdb"]
    assert "poddisruptionbudgets/status" in found


def test_unknown_group_is_404(rest: Rest) -> None:
    assert rest.get("/apis/no.such.group").status_code == 404
    assert rest.get("/apis/no.such.group/v1/things").status_code == 404


def test_unknown_resource_of_a_known_group_is_404(rest: Rest) -> None:
    assert rest.get("/api/v1/things").status_code == 404


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_discovery_is_served_to_clients_that_ask_for_it(rest: Rest, path: str) -> None:
    response = rest.get(path, AGGREGATED)
    listed = ok(response)
    assert listed["kind"] == "APIGroupDiscoveryList"
    assert listed["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert "as=APIGroupDiscoveryList" in response.headers["Content-Type"]


def test_aggregated_discovery_describes_resources_with_their_subresources(rest: Rest) -> None:
    (core,) = ok(rest.get("/api", AGGREGATED))["items"]
    (version,) = core["versions"]
    pods = next(resource for resource in version["resources"] if resource["resource"] == "pods")
    assert pods["responseKind"]["kind"] == "Pod"
    assert (pods["scope"], pods["singularResource"], pods["shortNames"]) == ("Namespaced", "pod", ["po"])
    assert {"binding", "eviction", "status"} <= {sub["subresource"] for sub in pods["subresources"]}


def test_openapi_v3_lists_its_documents_by_group_version(rest: Rest) -> None:
    paths = ok(rest.get("/openapi/v3"))["paths"]
    assert {"api/v1", "apis/apps/v1"} <= set(paths)
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1")


def test_openapi_v3_names_the_kind_of_each_schema(rest: Rest) -> None:
    url = ok(rest.get("/openapi/v3"))["paths"]["api/v1"]["serverRelativeURL"]
    schemas = ok(rest.get(url))["components"]["schemas"]
    pod = {"group": "", "version": "v1", "kind": "Pod"}
    assert any(pod in schema.get("x-kubernetes-group-version-kind", []) for schema in schemas.values())


def test_method_that_a_resource_does_not_know_is_405(rest: Rest) -> None:
    refused(rest.request("POST", "/api/v1/namespaces/default/pods/x", {}), 405, "MethodNotAllowed")
