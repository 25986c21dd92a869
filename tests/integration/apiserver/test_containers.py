"""What is asked of the containers of a pod, where there is no kubelet."""

import pytest

from tests.integration.apiserver.objects import pod
from tests.integration.apiserver.rest import STRATEGIC, Collection, ok, refused


def test_pod_without_a_node_has_no_logs_yet(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    answer = pods.get("a", "log")
    assert (answer.status_code, answer.text) == (204, "")


def test_unknown_pods_and_containers_are_refused(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    refused(pods.get("missing", "log"), 404, "NotFound")
    answer = refused(pods.get("a", "log", container="other"), 400, "BadRequest")
    assert answer["message"] == "container other is not valid for pod a"


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
def test_pod_without_a_node_cannot_be_reached(pods: Collection, subresource: str) -> None:
    ok(pods.create(pod("a")), 201)
    params = {"command": "ls", "stdout": "true"} if subresource != "portforward" else {}
    answer = refused(pods.post("a", subresource, {}, **params), 400, "BadRequest")
    assert answer["message"] == "pod a does not have a host assigned"


def test_ephemeral_containers_are_added_by_their_subresource(pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    added = {"name": "debugger", "image": "registry.test/debug:1"}
    ok(pods.patch("a", {"spec": {"ephemeralContainers": [added]}}, STRATEGIC, "ephemeralcontainers"))
    (found,) = ok(pods.get("a"))["spec"]["ephemeralContainers"]
    assert found["name"] == "debugger"
