"""Namespaces: the folder that every namespaced object needs."""

from collections.abc import Callable

import pytest

from tests.integration.apiserver.objects import config_map
from tests.integration.apiserver.rest import Rest, causes, ok, refused


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public", "kube-node-lease"])
def test_system_namespaces_exist(rest: Rest, name: str) -> None:
    assert ok(rest.collection("namespaces").get(name))["status"]["phase"] == "Active"


def test_new_namespace_is_active_labelled_and_held_by_its_finalizer(
    rest: Rest, unique: Callable[[str], str]
) -> None:
    name = unique("conformance")
    created = ok(rest.collection("namespaces").create({"metadata": {"name": name}}), 201)
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    assert created["spec"]["finalizers"] == ["kubernetes"]
    assert created["status"]["phase"] == "Active"


def test_name_must_be_a_dns_label(rest: Rest) -> None:
    found = causes(
        refused(rest.collection("namespaces").create({"metadata": {"name": "a.b"}}), 422, "Invalid")
    )
    assert found == {"metadata.name": "FieldValueInvalid"}


def test_label_with_the_name_comes_back(rest: Rest, namespace: str) -> None:
    label = "kubernetes.io/metadata.name"
    patched = ok(rest.collection("namespaces").patch(namespace, {"metadata": {"labels": {label: None}}}))
    assert patched["metadata"]["labels"] == {label: namespace}


def test_deleted_namespace_terminates(rest: Rest, namespace: str) -> None:
    namespaces = rest.collection("namespaces")
    deleted = ok(namespaces.delete(namespace), 200)
    assert deleted["metadata"]["deletionTimestamp"]
    assert deleted["status"]["phase"] == "Terminating"


def test_nothing_is_created_in_a_terminating_namespace(rest: Rest, namespace: str) -> None:
    maps = rest.collection("configmaps", namespace)
    document = config_map("held")
    document["metadata"]["finalizers"] = ["example.com/hold"]
    ok(maps.create(document), 201)
    ok(rest.collection("namespaces").delete(namespace), 200)
    status = refused(maps.create(config_map("late")), 403, "Forbidden")
    assert "because it is being terminated" in status["message"]
    assert [cause["reason"] for cause in status["details"]["causes"]] == ["NamespaceTerminating"]


def test_default_namespace_cannot_be_deleted(rest: Rest) -> None:
    refused(rest.collection("namespaces").delete("default"), 403, "Forbidden")


def test_finalize_subresource_lets_an_empty_namespace_go(rest: Rest, namespace: str) -> None:
    namespaces = rest.collection("namespaces")
    document = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace, "finalizers": []},
        "spec": {"finalizers": ["example.com/hold"]},
    }
    held = ok(namespaces.replace(document, sub="finalize"), 200)
    assert held["spec"]["finalizers"] == ["example.com/hold"]
    ok(namespaces.delete(namespace), 200)
    document["spec"] = {"finalizers": []}
    ok(namespaces.replace(document, sub="finalize"), 200)
    refused(namespaces.get(namespace), 404, "NotFound")
