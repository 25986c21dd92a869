"""PUT: optimistic locking, identity, and what an update cannot change."""

from tests.integration.apiserver.objects import config_map, deployment
from tests.integration.apiserver.rest import Collection, Rest, ok, refused


def test_update_replaces_the_object_and_moves_its_version(maps: Collection) -> None:
    created = ok(maps.create(config_map("a", old="1")), 201)
    updated = ok(maps.replace(created | {"data": {"new": "2"}}), 200)
    assert updated["data"] == {"new": "2"}
    assert int(updated["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    assert ok(maps.get("a")) == updated


def test_stale_version_is_a_conflict(maps: Collection) -> None:
    created = ok(maps.create(config_map("a")), 201)
    ok(maps.replace(created | {"data": {"first": "1"}}), 200)
    status = refused(maps.replace(created | {"data": {"second": "1"}}), 409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert status["details"] == {"name": "a", "kind": "configmaps"}
    assert ok(maps.get("a"))["data"] == {"first": "1"}


def test_update_without_a_version_is_unconditional(maps: Collection) -> None:
    created = ok(maps.create(config_map("a")), 201)
    updated = ok(maps.replace(config_map("a", key="value")), 200)
    assert updated["data"] == {"key": "value"}
    for field in ("uid", "creationTimestamp"):
        assert updated["metadata"][field] == created["metadata"][field]


def test_other_uid_is_a_conflict(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    document = config_map("a", key="value")
    document["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    status = refused(maps.replace(document), 409, "Conflict")
    assert "UID in precondition" in status["message"]


def test_update_that_changes_nothing_keeps_the_version(maps: Collection) -> None:
    created = ok(maps.create(config_map("a", key="value")), 201)
    assert ok(maps.replace(created), 200)["metadata"] == created["metadata"]


def test_missing_object_is_404(maps: Collection) -> None:
    refused(maps.replace(config_map("missing")), 404, "NotFound")


def test_name_must_be_the_urls(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    refused(maps.replace(config_map("b"), name="a"), 400, "BadRequest")


def test_dry_run_stores_nothing(maps: Collection) -> None:
    created = ok(maps.create(config_map("a")), 201)
    answer = ok(maps.replace(created | {"data": {"key": "value"}}, dryRun="All"), 200)
    assert answer["data"] == {"key": "value"}
    assert ok(maps.get("a")) == created


def test_creation_time_cannot_be_changed(maps: Collection) -> None:
    created = ok(maps.create(config_map("a")), 201)
    changed = created | {"metadata": created["metadata"] | {"creationTimestamp": "2001-01-01T00:00:00Z"}}
    assert (
        ok(maps.replace(changed), 200)["metadata"]["creationTimestamp"]
        == (created["metadata"]["creationTimestamp"])
    )


def test_immutable_config_map_stays(maps: Collection) -> None:
    created = ok(maps.create(config_map("a", key="value") | {"immutable": True}), 201)
    refused(maps.replace(created | {"data": {"key": "other"}}), 422, "Invalid")


def test_generation_counts_changes_of_the_spec_only(rest: Rest, namespace: str) -> None:
    deployments = rest.collection("deployments", namespace)
    created = ok(deployments.create(deployment("web")), 201)
    assert created["metadata"]["generation"] == 1
    labelled = ok(deployments.patch("web", {"metadata": {"labels": {"a": "b"}}}))
    assert labelled["metadata"]["generation"] == 1
    scaled = ok(deployments.patch("web", {"spec": {"replicas": 3}}))
    assert scaled["metadata"]["generation"] == 2
    observed = ok(deployments.patch("web", {"status": {"replicas": 3}}, sub="status"))
    assert observed["metadata"]["generation"] == 2
    assert observed["status"]["replicas"] == 3
