"""The smallest valid objects of each kind, and the states that tests put them into."""

from typing import Any

from tests.integration.apiserver.rest import Document, Rest, ok


def pod(name: str = "", **spec: Any) -> Document:
    """A pod of one container ``main``; ``spec`` fields are added or replaced."""
    containers = [{"name": "main", "image": "registry.test/app:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def config_map(name: str = "", labels: dict[str, str] | None = None, **data: str) -> Document:
    document: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    if labels:
        document["metadata"]["labels"] = labels
    return document | {"data": data} if data else document


def node(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Document:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def deployment(name: str, image: str = "registry.test/app:1") -> Document:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    template["spec"]["containers"][0]["image"] = image
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def labelled(document: Document, **labels: str) -> Document:
    """``document`` with these labels."""
    document["metadata"]["labels"] = {**document["metadata"].get("labels", {}), **labels}
    return document


def running(rest: Rest, namespace: str, document: Document, node_name: str = "some-node") -> Document:
    """Create the pod on a node (which need not exist) and let it be Running and Ready."""
    pods = rest.collection("pods", namespace)
    document["spec"]["nodeName"] = node_name
    name = ok(pods.create(document))["metadata"]["name"]
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    return ok(pods.patch(name, status, sub="status"))
