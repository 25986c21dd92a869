"""What the server makes of a pod: defaults, priorities, tolerations, and what may change later."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.eventually import eventually
from tests.integration.apiserver.objects import pod
from tests.integration.apiserver.rest import JSON_PATCH, Collection, Rest, causes, ok, refused


def test_defaults_are_filled_in(pods: Collection) -> None:
    created = ok(pods.create(pod("a")), 201)
    spec = created["spec"]
    expected = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "securityContext": {},
    }
    assert {field: spec.get(field) for field in expected} == expected
    assert created["status"]["phase"] == "Pending"


def test_containers_are_given_their_defaults(pods: Collection) -> None:
    ports = [{"containerPort": 80}]
    containers = [{"name": "main", "image": "app:1", "ports": ports}, {"name": "late", "image": "app"}]
    first, second = ok(pods.create(pod("a", containers=containers)), 201)["spec"]["containers"]
    assert first["imagePullPolicy"] == "IfNotPresent"
    assert second["imagePullPolicy"] == "Always"
    assert first["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert first["terminationMessagePath"] == "/dev/termination-log"
    assert first["terminationMessagePolicy"] == "File"
    assert first["resources"] == {}


def test_requests_follow_from_limits(pods: Collection) -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    containers = [{"name": "main", "image": "app:1", "resources": resources}]
    (container,) = ok(pods.create(pod("a", containers=containers)), 201)["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_qos_class_is_in_the_status(pods: Collection, resources: dict[str, Any], qos: str) -> None:
    containers = [{"name": "main", "image": "app:1", "resources": resources}]
    assert ok(pods.create(pod("a", containers=containers)), 201)["status"]["qosClass"] == qos


def test_quantities_are_answered_in_their_canonical_form(pods: Collection) -> None:
    requests = {"cpu": "1.5", "memory": "1024Mi", "example.com/batch-cpu": 2000}
    limits = {"example.com/batch-cpu": "2000"}
    resources = {"requests": requests, "limits": limits}
    containers = [{"name": "main", "image": "app:1", "resources": resources}]
    (container,) = ok(pods.create(pod("a", containers=containers)), 201)["spec"]["containers"]
    assert container["resources"]["requests"] == {
        "cpu": "1500m",
        "memory": "1Gi",
        "example.com/batch-cpu": "2k",
    }


def test_node_failures_are_tolerated_for_five_minutes(pods: Collection) -> None:
    tolerations = ok(pods.create(pod("a")), 201)["spec"]["tolerations"]
    expected = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    assert tolerations == [
        {"key": "node.kubernetes.io/not-ready", **expected},
        {"key": "node.kubernetes.io/unreachable", **expected},
    ]


def test_own_tolerations_of_node_failures_stay(pods: Collection) -> None:
    mine = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    tolerations = ok(pods.create(pod("a", tolerations=[mine])), 201)["spec"]["tolerations"]
    assert [t["key"].rpartition("/")[2] for t in tolerations] == ["not-ready", "unreachable"]
    assert tolerations[0] == mine


def test_priority_comes_from_the_class(rest: Rest, pods: Collection, unique: Callable[[str], str]) -> None:
    name = unique("class")
    priority_class = {"metadata": {"name": name}, "value": 9500, "preemptionPolicy": "Never"}
    ok(rest.collection("priorityclasses").create(priority_class), 201)
    spec = ok(pods.create(pod("a", priorityClassName=name)), 201)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (9500, "Never")


def test_system_priority_classes_exist(pods: Collection) -> None:
    spec = ok(pods.create(pod("a", priorityClassName="system-node-critical")), 201)["spec"]
    assert spec["priority"] == 2000001000


def test_unknown_priority_class_is_forbidden(pods: Collection) -> None:
    status = refused(pods.create(pod("a", priorityClassName="missing")), 403, "Forbidden")
    assert "no PriorityClass with name missing was found" in status["message"]


def test_priority_that_is_not_the_classes_is_forbidden(pods: Collection) -> None:
    refused(pods.create(pod("a", priority=7)), 403, "Forbidden")


def test_global_default_class_counts_for_pods_that_name_none(
    rest: Rest, pods: Collection, unique: Callable[[str], str]
) -> None:
    classes, name = rest.collection("priorityclasses"), unique("class")

    def priority() -> tuple[int, str | None]:
        spec = ok(pods.create(pod("a"), dryRun="All"), 201)["spec"]
        return spec["priority"], spec.get("priorityClassName")

    ok(classes.create({"metadata": {"name": name}, "value": 42, "globalDefault": True}), 201)
    try:
        assert eventually(lambda: priority() == (42, name))
    finally:
        ok(classes.delete(name), 200)
    assert eventually(lambda: priority() == (0, None))


def test_priority_class_value_cannot_change(rest: Rest, unique: Callable[[str], str]) -> None:
    classes, name = rest.collection("priorityclasses"), unique("class")
    ok(classes.create({"metadata": {"name": name}, "value": 10}), 201)
    refused(classes.patch(name, {"value": 20}), 422, "Invalid")


def test_image_may_change_other_container_fields_may_not(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "registry.test/app:2"}]
    patched = ok(pods.patch("a", image, JSON_PATCH), 200)
    assert patched["spec"]["containers"][0]["image"] == "registry.test/app:2"
    resources = [{"op": "add", "path": "/spec/containers/0/resources", "value": {"requests": {"cpu": "1"}}}]
    found = causes(refused(pods.patch("a", resources, JSON_PATCH), 422, "Invalid"))
    assert found == {"spec": "FieldValueForbidden"}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "elsewhere"},
        {"priority": 7},
        {"schedulerName": "other"},
        {"nodeSelector": {"a": "b"}},
        {"restartPolicy": "Never"},
    ],
)
def test_spec_of_a_pod_cannot_change(pods: Collection, spec: dict[str, Any]) -> None:
    created = ok(pods.create(pod("a")), 201)
    refused(pods.patch("a", {"spec": spec}), 422, "Invalid")
    assert ok(pods.get("a")) == created


def test_tolerations_may_be_added_but_not_taken(pods: Collection) -> None:
    mine = {"key": "a", "operator": "Exists"}
    current = ok(pods.create(pod("a", tolerations=[mine])), 201)["spec"]["tolerations"]
    more = {"key": "b", "operator": "Exists"}
    ok(pods.patch("a", {"spec": {"tolerations": [*current, more]}}), 200)
    refused(pods.patch("a", {"spec": {"tolerations": [mine]}}), 422, "Invalid")


def test_labels_and_annotations_may_change(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    metadata = {"labels": {"a": "1"}, "annotations": {"b": "2"}}
    patched = ok(pods.patch("a", {"metadata": metadata}), 200)
    assert (patched["metadata"]["labels"], patched["metadata"]["annotations"]) == ({"a": "1"}, {"b": "2"})


def test_gated_pod_says_so_in_its_condition(pods: Collection) -> None:
    created = ok(pods.create(pod("a", schedulingGates=[{"name": "example.com/wait"}])), 201)
    (condition,) = created["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled",
        "False",
        "SchedulingGated",
    )


def test_gates_may_be_removed_but_not_added(pods: Collection) -> None:
    gates = [{"name": "example.com/one"}, {"name": "example.com/two"}]
    ok(pods.create(pod("a", schedulingGates=gates)), 201)
    fewer = ok(pods.patch("a", {"spec": {"schedulingGates": gates[1:]}}), 200)
    assert fewer["spec"]["schedulingGates"] == gates[1:]
    refused(pods.patch("a", {"spec": {"schedulingGates": gates}}), 422, "Invalid")
    free = ok(pods.patch("a", {"spec": {"schedulingGates": None}}), 200)
    assert "schedulingGates" not in free["spec"]
    refused(pods.patch("a", {"spec": {"schedulingGates": gates[:1]}}), 422, "Invalid")


def test_node_selector_of_a_gated_pod_may_be_narrowed(pods: Collection) -> None:
    ok(pods.create(pod("a", schedulingGates=[{"name": "example.com/wait"}])), 201)
    patched = ok(pods.patch("a", {"spec": {"nodeSelector": {"zone": "a"}}}), 200)
    assert patched["spec"]["nodeSelector"] == {"zone": "a"}
    refused(pods.patch("a", {"spec": {"nodeSelector": {"zone": "b"}}}), 422, "Invalid")


def test_gated_pod_cannot_be_created_on_a_node(pods: Collection) -> None:
    gated = pod("a", schedulingGates=[{"name": "example.com/wait"}], nodeName="node-1")
    found = causes(refused(pods.create(gated), 422, "Invalid"))
    assert found == {"spec.nodeName": "FieldValueForbidden"}


def test_resize_changes_resources(pods: Collection) -> None:
    resources = {"requests": {"cpu": "1"}}
    containers = [{"name": "main", "image": "app:1", "resources": resources}]
    ok(pods.create(pod("a", containers=containers)), 201)
    operation = {"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "2"}
    resized = ok(pods.patch("a", [operation], JSON_PATCH, sub="resize"), 200)
    assert resized["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"
    assert resized["metadata"]["generation"] == 2
