"""Protobuf, which kubectl and other clients in Go send for built-in kinds."""

import httpx
import pytest

from tests.integration.apiserver.objects import config_map, pod
from tests.integration.apiserver.rest import Collection, Rest, ok, refused
from tests.protobuf_bytes import body, nested

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"


def metadata(name: str) -> bytes:
    return nested(1, nested(1, name.encode()))


def entry(key: bytes, value: bytes) -> bytes:
    return nested(1, key) + nested(2, value)


def send(rest: Rest, method: str, path: str, content: bytes) -> httpx.Response:
    headers = {"Content-Type": MEDIA_TYPE, "Accept": "application/json"}
    return rest.request(method, path, content, headers=headers)


def test_object_is_created_and_replaced(maps: Collection) -> None:
    made = body("ConfigMap", metadata("a") + nested(2, entry(b"key", b"1")) + nested(3, entry(b"b", b"\xff")))
    assert send(maps.rest, "POST", maps.path, made).status_code == 201
    stored = ok(maps.get("a"))
    assert (stored["data"], stored["binaryData"]) == ({"key": "1"}, {"b": "/w=="})
    changed = body("ConfigMap", metadata("a") + nested(2, entry(b"key", b"2")))
    assert send(maps.rest, "PUT", f"{maps.path}/a", changed).status_code == 200
    assert ok(maps.get("a"))["data"] == {"key": "2"}


def test_empty_texts_and_numbers_are_as_if_left_out(pods: Collection) -> None:
    container = nested(1, b"main") + nested(2, b"registry.test/app:1") + nested(5, b"") + nested(14, b"")
    spec = nested(2, container) + nested(3, b"") + nested(10, b"")
    assert send(pods.rest, "POST", pods.path, body("Pod", metadata("a") + nested(2, spec))).is_success
    stored = ok(pods.get("a"))["spec"]
    assert stored["restartPolicy"] == "Always"
    assert "nodeName" not in stored
    assert stored["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert "workingDir" not in stored["containers"][0]


def test_delete_options_and_evictions(pods: Collection) -> None:
    for name in ("a", "b"):
        ok(pods.create(pod(name)), 201)
    options = body("DeleteOptions", nested(2, nested(1, b"another uid")), "v1")
    refused(send(pods.rest, "DELETE", f"{pods.path}/a", options), 409, "Conflict")
    assert send(pods.rest, "DELETE", f"{pods.path}/a", body("DeleteOptions", b"\x08\x00")).is_success
    eviction = body("Eviction", metadata("b"), "policy/v1")
    assert send(pods.rest, "POST", f"{pods.path}/b/eviction", eviction).status_code == 201
    assert (pods.get("a").status_code, pods.get("b").status_code) == (404, 404)


def test_access_review(rest: Rest) -> None:
    attributes = nested(1, b"default") + nested(2, b"create") + nested(5, b"pods")
    review = body("SelfSubjectAccessReview", nested(2, nested(1, attributes)), "authorization.k8s.io/v1")
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = send(rest, "POST", path, review)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "broken",
    [b"", b"{}", b"k8s\0", body("ConfigMap", b"\x80"), body("ConfigMap", b"\x0a\xff\xff\xff\xff\x0f")],
)
def test_broken_body_is_400(maps: Collection, broken: bytes) -> None:
    assert send(maps.rest, "POST", maps.path, broken).status_code == 400


def test_other_kind_is_400(maps: Collection) -> None:
    assert send(maps.rest, "POST", maps.path, body("Secret", metadata("a"))).status_code == 400


def test_custom_resource_is_not_available_as_protobuf(widgets: Collection) -> None:
    assert widgets.rest.get(widgets.path, MEDIA_TYPE).status_code == 406


def test_json_is_the_answer_where_the_client_prefers_it(maps: Collection) -> None:
    ok(maps.create(config_map("a")), 201)
    answer = maps.rest.get(f"{maps.path}/a", f"application/json,{MEDIA_TYPE}")
    assert ok(answer)["kind"] == "ConfigMap"
