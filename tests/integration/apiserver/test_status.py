"""The status subresource: who writes spec cannot write status, and the reverse."""

from collections.abc import Callable

from tests.integration.apiserver.objects import node, pod
from tests.integration.apiserver.rest import STRATEGIC, Collection, Rest, ok, refused


def test_pod_starts_pending_whatever_its_creator_says(pods: Collection) -> None:
    created = ok(pods.create(pod("a") | {"status": {"phase": "Running"}}), 201)
    assert created["status"]["phase"] == "Pending"


def test_update_of_a_pod_does_not_touch_its_status(pods: Collection) -> None:
    created = ok(pods.create(pod("a")), 201)
    changed = created | {"status": {"phase": "Running"}}
    changed["metadata"]["labels"] = {"a": "b"}
    updated = ok(pods.replace(changed), 200)
    assert updated["metadata"]["labels"] == {"a": "b"}
    assert updated["status"]["phase"] == "Pending"


def test_update_of_a_pods_status_does_not_touch_its_spec(pods: Collection) -> None:
    created = ok(pods.create(pod("a")), 201)
    changed = created | {"status": {"phase": "Running"}, "spec": created["spec"] | {"priority": 7}}
    updated = ok(pods.replace(changed, sub="status"), 200)
    assert updated["status"]["phase"] == "Running"
    assert updated["spec"] == created["spec"]


def test_conditions_are_merged_by_type(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    for kind in ("Ready", "PodScheduled"):
        patch = {"status": {"conditions": [{"type": kind, "status": "False"}]}}
        patched = ok(pods.patch("a", patch, STRATEGIC, sub="status"))
    assert {condition["type"] for condition in patched["status"]["conditions"]} == {"Ready", "PodScheduled"}


def test_stale_status_is_a_conflict(pods: Collection) -> None:
    created = ok(pods.create(pod("a")), 201)
    ok(pods.replace(created | {"status": {"phase": "Running"}}, sub="status"), 200)
    refused(pods.replace(created | {"status": {"phase": "Failed"}}, sub="status"), 409, "Conflict")


def test_update_of_a_node_does_not_touch_its_status(rest: Rest, unique: Callable[[str], str]) -> None:
    nodes = rest.collection("nodes")
    name = unique("node")
    ok(nodes.create(node(name)), 201)
    patched = ok(
        nodes.patch(name, {"spec": {"unschedulable": True}, "status": {"allocatable": {"cpu": "1"}}})
    )
    assert patched["spec"]["unschedulable"] is True
    assert patched["status"]["allocatable"]["cpu"] == "8"


def test_extended_resources_are_published_through_the_nodes_status(
    rest: Rest, unique: Callable[[str], str]
) -> None:
    nodes = rest.collection("nodes")
    name = unique("node")
    ok(nodes.create(node(name)), 201)
    batch = {"kubernetes.io/batch-cpu": "4500"}
    patch = {"spec": {"unschedulable": True}, "status": {"allocatable": batch, "capacity": batch}}
    patched = ok(nodes.patch(name, patch, STRATEGIC, sub="status"))
    assert patched["status"]["allocatable"] == {"cpu": "8", "memory": "32Gi", "pods": "110", **batch}
    assert "unschedulable" not in patched["spec"]


def test_quantities_are_answered_in_their_canonical_form(rest: Rest, unique: Callable[[str], str]) -> None:
    document = node(unique("node"))
    document["status"]["allocatable"] = {"cpu": "4000m", "memory": "2048Mi", "example.com/gpu": "4000"}
    created = ok(rest.collection("nodes").create(document), 201)
    assert created["status"]["allocatable"] == {"cpu": "4", "memory": "2Gi", "example.com/gpu": "4k"}
