"""The official Python client against the server under test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client, config, watch

from tests.integration.apiserver.custom_resources import GROUP, widget
from tests.integration.apiserver.objects import config_map, node, pod, running
from tests.integration.apiserver.rest import Collection, Rest
from tests.integration.apiserver.server import Server


@pytest.fixture
def api_client(apiserver: Server) -> Iterator[Any]:
    made: Any = config.new_client_from_config(str(apiserver.kubeconfig))
    with made:
        yield made


@pytest.fixture
def core(api_client: Any) -> Any:
    return client.CoreV1Api(api_client)


def test_version_is_read(api_client: Any) -> None:
    assert client.VersionApi(api_client).get_code().major == "1"


def test_pod_is_created_read_listed_patched_and_deleted(core: Any, namespace: str) -> None:
    created = core.create_namespaced_pod(namespace, pod("a"))
    assert created.status.phase == "Pending"
    assert created.metadata.creation_timestamp.tzinfo is not None
    assert core.read_namespaced_pod("a", namespace).metadata.uid == created.metadata.uid
    listed = core.list_namespaced_pod(namespace)
    assert [item.metadata.name for item in listed.items] == ["a"]
    patched = core.patch_namespaced_pod("a", namespace, {"metadata": {"labels": {"tier": "web"}}})
    assert patched.metadata.labels == {"tier": "web"}
    selected = core.list_pod_for_all_namespaces(label_selector="tier=web", field_selector="metadata.name=a")
    assert namespace in {item.metadata.namespace for item in selected.items}
    core.delete_namespaced_pod("a", namespace)
    with pytest.raises(client.ApiException) as raised:
        core.read_namespaced_pod("a", namespace)
    assert raised.value.status == 404


def test_watch_goes_on_from_a_list(core: Any, namespace: str) -> None:
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    for name in ("a", "b"):
        core.create_namespaced_config_map(namespace, config_map(name))
    core.delete_namespaced_config_map("a", namespace)
    watcher: Any = watch.Watch()
    stream = watcher.stream(
        core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=1
    )
    seen = [(event["type"], event["object"].metadata.name) for event in stream]
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_stale_update_raises_conflict(core: Any, namespace: str) -> None:
    first = core.create_namespaced_config_map(namespace, config_map("a"))
    core.patch_namespaced_config_map("a", namespace, {"data": {"key": "1"}})
    with pytest.raises(client.ApiException) as raised:
        core.replace_namespaced_config_map("a", namespace, first)
    assert (raised.value.status, raised.value.reason) == (409, "Conflict")


def test_node_status_is_patched(core: Any, unique: Callable[[str], str]) -> None:
    name = unique("node")
    core.create_node(node(name))
    core.patch_node_status(name, {"status": {"capacity": {"example.com/gpu": "2"}}})
    assert core.read_node(name).status.capacity["example.com/gpu"] == "2"


def test_pod_is_bound_and_evicted(rest: Rest, core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod("a"))
    target = client.V1ObjectReference(api_version="v1", kind="Node", name="node-1")
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name="a"), target=target)
    # The client expects a Binding in return and gets a Status; its users skip the decoding.
    core.create_namespaced_pod_binding("a", namespace, binding, _preload_content=False)
    assert core.read_namespaced_pod("a", namespace).spec.node_name == "node-1"
    running(rest, namespace, pod("b"))
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="b"))
    core.create_namespaced_pod_eviction("b", namespace, eviction)
    assert core.read_namespaced_pod("b", namespace).metadata.deletion_timestamp is not None


def test_custom_object_is_created_and_its_status_patched(
    api_client: Any, widgets: Collection, namespace: str
) -> None:
    api = client.CustomObjectsApi(api_client)
    coordinates = (GROUP, "v1", namespace, "widgets")
    api.create_namespaced_custom_object(*coordinates, widget("a"))
    api.patch_namespaced_custom_object_status(*coordinates, "a", {"status": {"phase": "Ready"}})
    found: Any = api.get_namespaced_custom_object(*coordinates, "a")
    assert (found["spec"]["size"], found["status"]) == (1, {"phase": "Ready"})


def test_pages_are_followed(core: Any, namespace: str) -> None:
    for index in range(5):
        core.create_namespaced_config_map(namespace, config_map(f"m-{index}"))
    seen: list[str] = []
    token: str | None = None
    while True:
        page = core.list_namespaced_config_map(namespace, limit=2, **({"_continue": token} if token else {}))
        seen += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert seen == [f"m-{index}" for index in range(5)]
