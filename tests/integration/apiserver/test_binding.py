"""The binding subresource: how a scheduler assigns a pod to a node, once."""

from typing import Any

import pytest

from tests.integration.apiserver.objects import pod
from tests.integration.apiserver.rest import Collection, Document, ok, refused


def binding(name: str, node_name: str = "node-1", **metadata: Any) -> Document:
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    metadata = {"name": name, **metadata}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def test_bound_pod_has_its_node_and_says_so(pods: Collection) -> None:
    created = ok(pods.create(pod("a")), 201)
    status = ok(pods.post("a", "binding", binding("a")), 201)
    assert (status["kind"], status["status"]) == ("Status", "Success")
    bound = ok(pods.get("a"))
    assert bound["spec"]["nodeName"] == "node-1"
    conditions = {c["type"]: c["status"] for c in bound["status"]["conditions"]}
    assert conditions == {"PodScheduled": "True"}
    assert bound["status"]["phase"] == "Pending"
    assert int(bound["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


def test_annotations_of_the_binding_are_merged_into_the_pod_in_the_same_write(pods: Collection) -> None:
    document = pod("a")
    document["metadata"]["annotations"] = {"keep": "1", "change": "1"}
    start = ok(pods.create(document), 201)["metadata"]["resourceVersion"]
    with pods.watch(resourceVersion=start) as watch:
        ok(pods.post("a", "binding", binding("a", annotations={"change": "2", "new": "1"})), 201)
        event = watch.next()
    assert event["object"]["spec"]["nodeName"] == "node-1"
    assert event["object"]["metadata"]["annotations"] == {"keep": "1", "change": "2", "new": "1"}


def test_second_binding_is_a_conflict(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    ok(pods.post("a", "binding", binding("a")), 201)
    status = refused(pods.post("a", "binding", binding("a", "node-2")), 409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "node-1"'
    )
    assert ok(pods.get("a"))["spec"]["nodeName"] == "node-1"


def test_other_uid_is_a_conflict(pods: Collection) -> None:
    created = ok(pods.create(pod("a")), 201)
    other = binding("a", uid="11111111-2222-3333-4444-555555555555")
    refused(pods.post("a", "binding", other), 409, "Conflict")
    assert "nodeName" not in ok(pods.get("a"))["spec"]
    ok(pods.post("a", "binding", binding("a", uid=created["metadata"]["uid"])), 201)


def test_stale_version_is_a_conflict(pods: Collection) -> None:
    stale = ok(pods.create(pod("a")), 201)["metadata"]["resourceVersion"]
    fresh = ok(pods.patch("a", {"metadata": {"labels": {"a": "b"}}}))["metadata"]["resourceVersion"]
    refused(pods.post("a", "binding", binding("a", resourceVersion=stale)), 409, "Conflict")
    ok(pods.post("a", "binding", binding("a", resourceVersion=fresh)), 201)


def test_gated_pod_is_not_bound(pods: Collection) -> None:
    ok(pods.create(pod("a", schedulingGates=[{"name": "example.com/wait"}])), 201)
    status = refused(pods.post("a", "binding", binding("a")), 409, "Conflict")
    assert "has non-empty .spec.schedulingGates" in status["message"]
    ok(pods.patch("a", {"spec": {"schedulingGates": None}}), 200)
    ok(pods.post("a", "binding", binding("a")), 201)


def test_pod_that_is_being_deleted_is_not_bound(pods: Collection) -> None:
    document = pod("a")
    document["metadata"]["finalizers"] = ["example.com/hold"]
    ok(pods.create(document), 201)
    ok(pods.delete("a"), 200)
    status = refused(pods.post("a", "binding", binding("a")), 409, "Conflict")
    assert "pod a is being deleted, cannot be assigned to a host" in status["message"]


def test_missing_pod_is_404(pods: Collection) -> None:
    refused(pods.post("missing", "binding", binding("missing")), 404, "NotFound")


@pytest.mark.parametrize(
    "target",
    [{"kind": "Node", "name": ""}, {"kind": "Pod", "name": "x"}, {}],
    ids=["no name", "kind", "empty"],
)
def test_target_must_be_a_node(pods: Collection, target: dict[str, str]) -> None:
    ok(pods.create(pod("a")), 201)
    document = binding("a") | {"target": target}
    assert pods.post("a", "binding", document).status_code >= 400
    assert "nodeName" not in ok(pods.get("a"))["spec"]


def test_name_of_the_binding_must_be_the_pods(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    refused(pods.post("a", "binding", binding("b")), 400, "BadRequest")


def test_dry_run_binds_nothing(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    ok(pods.post("a", "binding", binding("a"), dryRun="All"), 201)
    assert "nodeName" not in ok(pods.get("a"))["spec"]


def test_bindings_may_be_posted_to_the_namespace(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    collection = pods.path.removesuffix("pods") + "bindings"
    ok(pods.rest.request("POST", collection, binding("a")), 201)
    assert ok(pods.get("a"))["spec"]["nodeName"] == "node-1"


def test_node_need_not_exist(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    ok(pods.post("a", "binding", binding("a", "no-such-node")), 201)
