"""PATCH in its three formats, and what it refuses."""

import pytest

from tests.integration.apiserver.objects import config_map, deployment, pod
from tests.integration.apiserver.rest import JSON_PATCH, MERGE, STRATEGIC, Collection, Rest, ok, refused


def test_merge_patch_sets_replaces_and_removes(maps: Collection) -> None:
    ok(maps.create(config_map("a", keep="1", change="1", drop="1")), 201)
    patched = ok(maps.patch("a", {"data": {"change": "2", "drop": None, "new": "1"}}), 200)
    assert patched["data"] == {"keep": "1", "change": "2", "new": "1"}
    assert ok(maps.get("a")) == patched


def test_merge_patch_replaces_lists(pods: Collection) -> None:
    tolerations = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    created = ok(pods.create(pod("a", tolerations=tolerations)), 201)
    more = [*created["spec"]["tolerations"], {"key": "c", "operator": "Exists"}]
    patched = ok(pods.patch("a", {"spec": {"tolerations": more}}))
    assert patched["spec"]["tolerations"] == more


def test_json_patch_applies_its_operations_in_order(maps: Collection) -> None:
    ok(maps.create(config_map("a", keep="1", drop="1")), 201)
    operations = [
        {"op": "test", "path": "/data/keep", "value": "1"},
        {"op": "add", "path": "/data/new", "value": "1"},
        {"op": "replace", "path": "/data/new", "value": "2"},
        {"op": "copy", "from": "/data/new", "path": "/data/copy"},
        {"op": "move", "from": "/data/keep", "path": "/data/moved"},
        {"op": "remove", "path": "/data/drop"},
        {"op": "add", "path": "/metadata/labels", "value": {"example.com/tier": "web"}},
        {"op": "replace", "path": "/metadata/labels/example.com~1tier", "value": "db"},
    ]
    patched = ok(maps.patch("a", operations, JSON_PATCH), 200)
    assert patched["data"] == {"new": "2", "copy": "2", "moved": "1"}
    assert patched["metadata"]["labels"] == {"example.com/tier": "db"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/key", "value": "other"},
        {"op": "remove", "path": "/data/missing"},
        {"op": "add", "path": "/no/such/parent", "value": "x"},
    ],
)
def test_json_patch_that_cannot_be_applied_is_422_and_changes_nothing(
    maps: Collection, operation: dict[str, str]
) -> None:
    created = ok(maps.create(config_map("a", key="value")), 201)
    first = {"op": "add", "path": "/data/first", "value": "1"}
    refused(maps.patch("a", [first, operation], JSON_PATCH), 422, "Invalid")
    assert ok(maps.get("a")) == created


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, JSON_PATCH])
@pytest.mark.parametrize("body", [b"{", b'"text"'])
def test_body_that_is_no_patch_is_400(maps: Collection, kind: str, body: bytes) -> None:
    ok(maps.create(config_map("a")), 201)
    refused(maps.patch("a", body, kind), 400, "BadRequest")


def test_strategic_patch_merges_containers_by_name(rest: Rest, namespace: str) -> None:
    deployments = rest.collection("deployments", namespace)
    ok(deployments.create(deployment("web")), 201)
    containers = [
        {"name": "main", "env": [{"name": "A", "value": "1"}]},
        {"name": "side", "image": "registry.test/side:1"},
    ]
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    patched = ok(deployments.patch("web", patch, STRATEGIC))
    found = {c["name"]: c for c in patched["spec"]["template"]["spec"]["containers"]}
    assert set(found) == {"main", "side"}
    assert found["main"]["image"] == "registry.test/app:1"
    assert found["main"]["env"] == [{"name": "A", "value": "1"}]


def test_strategic_patch_deletes_by_merge_key(rest: Rest, namespace: str) -> None:
    deployments = rest.collection("deployments", namespace)
    document = deployment("web")
    document["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "x"})
    ok(deployments.create(document), 201)
    gone = [{"name": "side", "$patch": "delete"}]
    patch = {"spec": {"template": {"spec": {"containers": gone}}}}
    patched = ok(deployments.patch("web", patch, STRATEGIC))
    assert [c["name"] for c in patched["spec"]["template"]["spec"]["containers"]] == ["main"]


def test_strategic_patch_replaces_what_it_marks(rest: Rest, namespace: str) -> None:
    deployments = rest.collection("deployments", namespace)
    ok(deployments.create(deployment("web")), 201)
    template = {"nodeSelector": {"a": "1"}}
    ok(deployments.patch("web", {"spec": {"template": {"spec": template}}}, STRATEGIC))
    replaced = {"nodeSelector": {"$patch": "replace", "b": "2"}}
    patched = ok(deployments.patch("web", {"spec": {"template": {"spec": replaced}}}, STRATEGIC))
    assert patched["spec"]["template"]["spec"]["nodeSelector"] == {"b": "2"}


def test_strategic_patch_retains_only_the_keys_it_names(rest: Rest, namespace: str) -> None:
    deployments = rest.collection("deployments", namespace)
    ok(deployments.create(deployment("web")), 201)
    strategy = {"$retainKeys": ["type"], "type": "Recreate"}
    patched = ok(deployments.patch("web", {"spec": {"strategy": strategy}}, STRATEGIC))
    assert patched["spec"]["strategy"] == {"type": "Recreate"}


def test_strategic_patch_merges_and_deletes_finalizers(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    for finalizer in ("example.com/one", "example.com/two"):
        patched = ok(maps.patch("a", {"metadata": {"finalizers": [finalizer]}}, STRATEGIC))
    assert set(patched["metadata"]["finalizers"]) == {"example.com/one", "example.com/two"}
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/one"]}}
    patched = ok(maps.patch("a", gone, STRATEGIC))
    assert patched["metadata"]["finalizers"] == ["example.com/two"]


def test_strategic_patch_replaces_lists_without_a_merge_key(pods: Collection) -> None:
    created = ok(pods.create(pod("a", tolerations=[{"key": "a", "operator": "Exists"}])), 201)
    more = [*created["spec"]["tolerations"], {"key": "c", "operator": "Exists"}]
    patched = ok(pods.patch("a", {"spec": {"tolerations": more}}, STRATEGIC))
    assert patched["spec"]["tolerations"] == more


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
def test_current_version_in_a_patch_is_a_precondition(maps: Collection, kind: str) -> None:
    created = ok(maps.create(config_map("a")), 201)
    version = created["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "data": {"key": "1"}}
    ok(maps.patch("a", patch, kind), 200)
    status = refused(maps.patch("a", patch | {"data": {"key": "2"}}, kind), 409, "Conflict")
    assert "the object has been modified" in status["message"]
    assert ok(maps.get("a"))["data"] == {"key": "1"}


def test_uid_cannot_be_patched(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    patch = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}}
    refused(maps.patch("a", patch), 422, "Invalid")


def test_patch_that_changes_nothing_keeps_the_version(maps: Collection) -> None:
    created = ok(maps.create(config_map("a", key="value")), 201)
    patched = ok(maps.patch("a", {"data": {"key": "value"}}), 200)
    assert patched["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


def test_missing_object_is_404(maps: Collection) -> None:
    refused(maps.patch("missing", {"data": {}}), 404, "NotFound")


def test_unknown_patch_format_is_415(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    refused(maps.patch("a", {}, "application/json"), 415, "UnsupportedMediaType")


def test_name_cannot_be_patched(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    refused(maps.patch("a", {"metadata": {"name": "b"}}), 400, "BadRequest")


def test_result_of_a_patch_is_validated(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    refused(maps.patch("a", {"metadata": {"labels": {"tier": "no spaces"}}}), 422, "Invalid")


def test_patch_of_the_wrong_type_is_refused(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    assert maps.patch("a", {"data": ["list"]}).status_code in (400, 422)
    assert "data" not in ok(maps.get("a"))


def test_dry_run_stores_nothing(maps: Collection) -> None:
    created = ok(maps.create(config_map("a")), 201)
    assert ok(maps.patch("a", {"data": {"key": "value"}}, dryRun="All"))["data"] == {"key": "value"}
    assert ok(maps.get("a")) == created
