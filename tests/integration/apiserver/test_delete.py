"""DELETE: preconditions, grace, finalizers, whole collections."""

import datetime
from collections.abc import Callable

import pytest

from tests.integration.apiserver.objects import config_map, node, pod, running
from tests.integration.apiserver.rest import Collection, Document, Rest, names, ok, refused


def options(**fields: object) -> Document:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **fields}


def test_deleted_object_is_gone_and_the_answer_says_which(maps: Collection) -> None:
    created = ok(maps.create(config_map("a")), 201)
    status = ok(maps.delete("a"), 200)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    refused(maps.get("a"), 404, "NotFound")


def test_missing_object_is_404(maps: Collection) -> None:
    refused(maps.delete("missing"), 404, "NotFound")


def test_other_uid_is_a_conflict(maps: Collection) -> None:
    created = ok(maps.create(config_map("a")), 201)
    other = options(preconditions={"uid": "11111111-2222-3333-4444-555555555555"})
    status = refused(maps.delete("a", other), 409, "Conflict")
    assert "the UID in the precondition" in status["message"]
    ok(maps.delete("a", options(preconditions={"uid": created["metadata"]["uid"]})), 200)


def test_other_version_is_a_conflict(maps: Collection) -> None:
    stale = ok(maps.create(config_map("a")), 201)["metadata"]["resourceVersion"]
    fresh = ok(maps.patch("a", {"data": {"key": "1"}}))["metadata"]["resourceVersion"]
    status = refused(maps.delete("a", options(preconditions={"resourceVersion": stale})), 409, "Conflict")
    assert "the ResourceVersion in the precondition" in status["message"]
    ok(maps.delete("a", options(preconditions={"resourceVersion": fresh})), 200)


def test_dry_run_deletes_nothing(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    ok(maps.delete("a", dryRun="All"), 200)
    ok(maps.get("a"), 200)


@pytest.mark.parametrize("policy", ["Background", "Orphan"])
def test_propagation_policy_is_accepted(maps: Collection, policy: str) -> None:
    ok(maps.create(config_map("a")), 201)
    ok(maps.delete("a", options(propagationPolicy=policy)), 200)


def test_unknown_propagation_policy_is_refused(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    refused(maps.delete("a", options(propagationPolicy="Sideways")), 422, "Invalid")


def test_finalizers_keep_the_object_until_the_last_is_removed(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    ok(maps.create(document), 201)
    deleting = ok(maps.delete("a"), 200)
    assert deleting["kind"] == "ConfigMap"
    assert deleting["metadata"]["deletionTimestamp"]
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 0
    ok(maps.patch("a", {"metadata": {"finalizers": ["example.com/two"]}}), 200)
    assert ok(maps.get("a"))["metadata"]["finalizers"] == ["example.com/two"]
    ok(maps.patch("a", {"metadata": {"finalizers": []}}), 200)
    refused(maps.get("a"), 404, "NotFound")


def test_second_delete_of_a_kept_object_changes_nothing(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"]["finalizers"] = ["example.com/one"]
    ok(maps.create(document), 201)
    first = ok(maps.delete("a"), 200)
    second = ok(maps.delete("a"), 200)
    assert second["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_no_finalizer_is_added_to_an_object_that_is_being_deleted(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"]["finalizers"] = ["example.com/one"]
    ok(maps.create(document), 201)
    ok(maps.delete("a"), 200)
    more = {"metadata": {"finalizers": ["example.com/one", "example.com/two"]}}
    refused(maps.patch("a", more), 422, "Invalid")


def test_deletion_time_cannot_be_taken_back(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"]["finalizers"] = ["example.com/one"]
    ok(maps.create(document), 201)
    stamp = ok(maps.delete("a"), 200)["metadata"]["deletionTimestamp"]
    patched = ok(maps.patch("a", {"metadata": {"deletionTimestamp": None}, "data": {"key": "1"}}), 200)
    assert patched["metadata"]["deletionTimestamp"] == stamp


def test_deletion_of_a_kept_object_is_watched_as_modified_then_deleted(maps: Collection) -> None:
    document = config_map("a")
    document["metadata"]["finalizers"] = ["example.com/one"]
    start = ok(maps.create(document), 201)["metadata"]["resourceVersion"]
    with maps.watch(resourceVersion=start) as watch:
        ok(maps.delete("a"), 200)
        ok(maps.patch("a", {"metadata": {"finalizers": None}}), 200)
        modified, deleted = watch.next(), watch.next()
    assert (modified["type"], deleted["type"]) == ("MODIFIED", "DELETED")
    # The last finalizer's removal is the deletion itself; the object is told as it was last stored.
    assert deleted["object"]["metadata"]["finalizers"] == ["example.com/one"]


def test_unscheduled_pod_goes_at_once(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    deleted = ok(pods.delete("a"), 200)
    assert (deleted["kind"], deleted["metadata"]["name"]) == ("Pod", "a")
    refused(pods.get("a"), 404, "NotFound")


def test_bound_pod_is_given_its_grace_period(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("a", terminationGracePeriodSeconds=50))
    now = datetime.datetime.now(datetime.UTC)
    metadata = ok(pods.delete("a"), 200)["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 50
    end = datetime.datetime.fromisoformat(metadata["deletionTimestamp"].replace("Z", "+00:00"))
    assert 40 <= (end - now).total_seconds() <= 60
    still = ok(pods.get("a"))
    assert still["status"]["phase"] == "Running"
    assert still["metadata"]["deletionTimestamp"] == metadata["deletionTimestamp"]


@pytest.mark.parametrize("how", ["option", "parameter"])
def test_grace_of_the_request_wins_over_the_pods(
    rest: Rest, pods: Collection, namespace: str, how: str
) -> None:
    running(rest, namespace, pod("a"))
    if how == "option":
        deleted = ok(pods.delete("a", options(gracePeriodSeconds=5)), 200)
    else:
        deleted = ok(pods.delete("a", gracePeriodSeconds=5), 200)
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 5


def test_grace_can_be_shortened_but_not_extended(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("a"))
    ok(pods.delete("a", options(gracePeriodSeconds=20)), 200)
    longer = ok(pods.delete("a", options(gracePeriodSeconds=40)), 200)
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 20
    shorter = ok(pods.delete("a", options(gracePeriodSeconds=5)), 200)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5


def test_grace_of_zero_removes_a_pod_at_once(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("a"))
    ok(pods.delete("a"), 200)
    ok(pods.get("a"), 200)
    ok(pods.delete("a", options(gracePeriodSeconds=0)), 200)
    refused(pods.get("a"), 404, "NotFound")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_finished_pod_goes_at_once(rest: Rest, pods: Collection, namespace: str, phase: str) -> None:
    running(rest, namespace, pod("a"))
    ok(pods.patch("a", {"status": {"phase": phase}}, sub="status"), 200)
    ok(pods.delete("a"), 200)
    refused(pods.get("a"), 404, "NotFound")


def test_negative_grace_is_refused_or_taken_as_one(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("a"))
    deleted = ok(pods.delete("a", options(gracePeriodSeconds=-5)), 200)
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 1


def test_grace_beyond_64_bits_of_nanoseconds_wraps(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("a"))
    deleted = ok(pods.delete("a", options(gracePeriodSeconds=10**10)), 200)["metadata"]
    assert deleted["deletionGracePeriodSeconds"] == 10**10
    assert deleted["deletionTimestamp"] < "1800"
    shorter = ok(pods.delete("a", options(gracePeriodSeconds=5)), 200)["metadata"]
    assert shorter["deletionTimestamp"] > "2000"


def test_node_goes_at_once(rest: Rest, unique: Callable[[str], str]) -> None:
    nodes, name = rest.collection("nodes"), unique("node")
    ok(nodes.create(node(name)), 201)
    assert ok(nodes.delete(name), 200)["status"] == "Success"
    refused(nodes.get(name), 404, "NotFound")


def test_collection_is_deleted_by_selector(filled: Collection) -> None:
    ok(filled.delete_all(labelSelector="tier=web"), 200)
    assert names(ok(filled.list())) == ["c", "d", "e"]
    ok(filled.delete_all(fieldSelector="metadata.name=c"), 200)
    assert names(ok(filled.list())) == ["d", "e"]
    ok(filled.delete_all(), 200)
    assert names(ok(filled.list())) == []


def test_collection_of_bound_pods_is_given_grace(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("bound"))
    ok(pods.create(pod("waiting")), 201)
    ok(pods.delete_all(), 200)
    (left,) = ok(pods.list())["items"]
    assert left["metadata"]["name"] == "bound"
    assert left["metadata"]["deletionTimestamp"]
