"""kubectl, the client that people use, against the server under test."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane import build
from tests.eventually import PATIENCE, eventually
from tests.integration.apiserver.custom_resources import GROUP_VERSION, widget
from tests.integration.apiserver.objects import config_map, deployment, labelled, node, pod, running
from tests.integration.apiserver.rest import Collection, Document, Rest, ok
from tests.integration.apiserver.server import Server

Kubectl = Callable[..., str]

WAIT = f"--timeout={PATIENCE * 0.9:.0f}s"
"""How long a kubectl waits; it says what it waited for before its own end is no longer awaited."""


@pytest.fixture
def kubectl(apiserver: Server, namespace: str, tmp_path: Path) -> Kubectl:
    """Runs kubectl in the test's namespace; returns what it prints, fails as it fails."""
    binary = build.find("kubectl")
    if binary is None:
        pytest.skip("kubectl is not built: run python -m tests.e2e.controlplane.build (needs Go)")

    def run(*args: str, documents: list[Document] | None = None, code: int = 0) -> str:
        done = subprocess.run(
            [str(binary), "--namespace", namespace, *args],
            # kubectl caches discovery under its home folder; each test starts cold.
            env={**os.environ, "KUBECONFIG": str(apiserver.kubeconfig), "HOME": str(tmp_path)},
            input=None if documents is None else yaml.safe_dump_all(documents),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == code, f"kubectl {args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr

    return run


def rows(printed: str) -> list[list[str]]:
    """The words of each line, the header too."""
    return [line.split() for line in printed.splitlines()]


def test_get_pods(kubectl: Kubectl, rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("a"), "node-1")
    ok(pods.create(pod("b")), 201)
    header, first, second = rows(kubectl("get", "pods"))
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert (first[:3], second[:3]) == (["a", "0/1", "Running"], ["b", "0/1", "Pending"])


def test_get_pods_wide_shows_their_nodes(kubectl: Kubectl, rest: Rest, namespace: str) -> None:
    running(rest, namespace, pod("a"), "node-1")
    header, row = rows(kubectl("get", "po", "-o", "wide"))
    assert "NODE" in header
    assert "node-1" in row


def test_get_of_nothing_says_so(kubectl: Kubectl) -> None:
    assert kubectl("get", "pods") == ""
    assert 'pods "a" not found' in kubectl("get", "pod", "a", code=1)


def test_get_selects_sorts_and_formats(kubectl: Kubectl, pods: Collection) -> None:
    for name in ("b", "a", "c"):
        ok(pods.create(labelled(pod(name), tier="web" if name != "c" else "db")), 201)
    assert kubectl("get", "pods", "-l", "tier=web", "-o", "name").split() == ["pod/a", "pod/b"]
    names = kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
    assert names.split() == ["a", "b", "c"]
    assert json.loads(kubectl("get", "pod", "a", "-o", "json"))["kind"] == "Pod"
    assert yaml.safe_load(kubectl("get", "pod", "a", "-o", "yaml"))["metadata"]["name"] == "a"
    selected = kubectl("get", "pods", "--field-selector", "metadata.name=c", "-o", "name")
    assert selected.split() == ["pod/c"]


def test_get_across_namespaces(kubectl: Kubectl, pods: Collection, namespace: str) -> None:
    ok(pods.create(labelled(pod("a"), space=namespace)), 201)
    header, row = rows(kubectl("get", "pods", "-A", "-l", f"space={namespace}"))
    assert header[0] == "NAMESPACE"
    assert row[:2] == [namespace, "a"]


def test_get_nodes(kubectl: Kubectl, rest: Rest, unique: Callable[[str], str]) -> None:
    name = unique("node")
    document = node(name)
    document["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    ok(rest.collection("nodes").create(document), 201)
    header, row = rows(kubectl("get", "nodes", name))
    assert header == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert row[:3] == [name, "Ready", "<none>"]


def test_cordon_and_uncordon(kubectl: Kubectl, rest: Rest, unique: Callable[[str], str]) -> None:
    nodes, name = rest.collection("nodes"), unique("node")
    ok(nodes.create(node(name)), 201)
    assert kubectl("cordon", name) == f"node/{name} cordoned\n"
    assert ok(nodes.get(name))["spec"]["unschedulable"] is True
    assert kubectl("uncordon", name) == f"node/{name} uncordoned\n"
    assert "unschedulable" not in ok(nodes.get(name))["spec"]


def test_drain_evicts_the_pods_of_a_node(
    kubectl: Kubectl, rest: Rest, pods: Collection, namespace: str, unique: Callable[[str], str]
) -> None:
    name = unique("node")
    ok(rest.collection("nodes").create(node(name)), 201)
    running(rest, namespace, pod("a", terminationGracePeriodSeconds=0), name)
    printed = kubectl("drain", name, "--force", WAIT)
    assert f"node/{name} drained" in printed
    assert pods.get("a").status_code == 404


def test_taint(kubectl: Kubectl, rest: Rest, unique: Callable[[str], str]) -> None:
    nodes, name = rest.collection("nodes"), unique("node")
    ok(nodes.create(node(name)), 201)
    kubectl("taint", "node", name, "dedicated=batch:NoSchedule")
    taints = ok(nodes.get(name))["spec"]["taints"]
    assert {"key": "dedicated", "value": "batch", "effect": "NoSchedule"} in taints


def test_create_get_and_delete(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", documents=[pod("a")]) == "pod/a created\n"
    assert "AlreadyExists" in kubectl("create", "-f", "-", documents=[pod("a")], code=1)
    assert kubectl("delete", "pod", "a").startswith('pod "a" deleted')
    assert kubectl("get", "pods") == ""


def test_create_by_command(kubectl: Kubectl, maps: Collection) -> None:
    kubectl("create", "configmap", "a", "--from-literal=key=value")
    assert ok(maps.get("a"))["data"] == {"key": "value"}


def test_apply_creates_updates_and_prunes_fields(kubectl: Kubectl, maps: Collection) -> None:
    applied = [config_map("a", one="1", two="2")]
    assert kubectl("apply", "-f", "-", documents=applied) == "configmap/a created\n"
    assert kubectl("apply", "-f", "-", documents=applied) == "configmap/a unchanged\n"
    ok(maps.patch("a", {"data": {"theirs": "3"}}))
    assert kubectl("apply", "-f", "-", documents=[config_map("a", one="1")]) == "configmap/a configured\n"
    assert ok(maps.get("a"))["data"] == {"one": "1", "theirs": "3"}


def test_apply_merges_the_containers_of_a_deployment(kubectl: Kubectl, rest: Rest, namespace: str) -> None:
    kubectl("apply", "-f", "-", documents=[deployment("web")])
    kubectl("apply", "-f", "-", documents=[deployment("web", "registry.test/app:2")])
    (container,) = ok(rest.collection("deployments", namespace).get("web"))["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "registry.test/app:2"
    assert container["imagePullPolicy"] == "IfNotPresent"


def test_apply_of_a_custom_resource(kubectl: Kubectl, widgets: Collection) -> None:
    assert kubectl("apply", "-f", "-", documents=[widget("a")]).endswith("created\n")
    assert kubectl("apply", "-f", "-", documents=[widget("a", size=3)]).endswith("configured\n")
    assert ok(widgets.get("a"))["spec"]["size"] == 3
    header, row = rows(kubectl("get", "wd"))
    assert header == ["NAME", "SIZE", "PHASE", "AGE"]
    assert row[:2] == ["a", "3"]


def test_apply_on_the_server(kubectl: Kubectl, maps: Collection) -> None:
    for value in ("1", "2"):
        kubectl("apply", "--server-side", "-f", "-", documents=[config_map("a", key=value)])
    assert ok(maps.get("a"))["data"] == {"key": "2"}


def test_dry_run_on_the_server_stores_nothing(kubectl: Kubectl, maps: Collection) -> None:
    documents = [config_map("a")]
    assert "dry run" in kubectl("apply", "--dry-run=server", "-f", "-", documents=documents)
    assert maps.get("a").status_code == 404


def test_invalid_document_is_explained(kubectl: Kubectl) -> None:
    message = kubectl("create", "--validate=false", "-f", "-", documents=[pod("a", containers=[])], code=1)
    assert "spec.containers: Required value" in message


def test_unknown_field_is_found_by_validation(kubectl: Kubectl) -> None:
    message = kubectl("apply", "-f", "-", documents=[pod("a", colour="red")], code=1)
    assert 'unknown field "spec.colour"' in message


@pytest.mark.parametrize("kind", ["merge", "strategic", "json"])
def test_patch(kubectl: Kubectl, maps: Collection, kind: str) -> None:
    ok(maps.create(config_map("a", key="1")), 201)
    operation: Any = [{"op": "replace", "path": "/data/key", "value": "2"}]
    patch = operation if kind == "json" else {"data": {"key": "2"}}
    kubectl("patch", "configmap", "a", "--type", kind, "-p", json.dumps(patch))
    assert ok(maps.get("a"))["data"] == {"key": "2"}


def test_patch_of_a_subresource(kubectl: Kubectl, pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    kubectl(
        "patch", "pod", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Running"}}'
    )
    assert ok(pods.get("a"))["status"]["phase"] == "Running"


def test_label_and_annotate(kubectl: Kubectl, pods: Collection) -> None:
    ok(pods.create(pod("a")), 201)
    kubectl("label", "pod", "a", "tier=web")
    kubectl("annotate", "pod", "a", "example.com/note=hello there")
    metadata = ok(pods.get("a"))["metadata"]
    assert metadata["labels"] == {"tier": "web"}
    assert metadata["annotations"]["example.com/note"] == "hello there"
    kubectl("label", "pod", "a", "tier-")
    assert "labels" not in ok(pods.get("a"))["metadata"]


def test_describe_pod_and_its_events(kubectl: Kubectl, rest: Rest, pods: Collection, namespace: str) -> None:
    created = running(rest, namespace, pod("a"), "node-1")
    event = {
        "metadata": {"name": "a.1"},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "a"}
        | {"uid": created["metadata"]["uid"]},
        "reason": "Scheduled",
        "message": "assigned to node-1",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": created["metadata"]["creationTimestamp"],
        "lastTimestamp": created["metadata"]["creationTimestamp"],
        "source": {"component": "scheduler"},
    }
    ok(rest.collection("events", namespace).create(event), 201)
    printed = kubectl("describe", "pod", "a")
    assert "Node:" in printed
    assert "assigned to node-1" in printed
    header, row = rows(kubectl("get", "events"))
    assert header[:4] == ["LAST", "SEEN", "TYPE", "REASON"]
    assert "Scheduled" in row


def test_describe_node(kubectl: Kubectl, rest: Rest, namespace: str, unique: Callable[[str], str]) -> None:
    name = unique("node")
    ok(rest.collection("nodes").create(node(name)), 201)
    running(rest, namespace, pod("on-the-node"), name)
    printed = kubectl("describe", "node", name)
    assert "Allocatable:" in printed
    assert "on-the-node" in printed


def test_replace_and_scale(kubectl: Kubectl, rest: Rest, namespace: str) -> None:
    kubectl("create", "-f", "-", documents=[deployment("web")])
    kubectl("scale", "deployment", "web", "--replicas=3")
    found = ok(rest.collection("deployments", namespace).get("web"))
    assert found["spec"]["replicas"] == 3
    assert kubectl("replace", "-f", "-", documents=[deployment("web")]).endswith("replaced\n")


def test_api_resources_lists_built_in_and_custom_kinds(kubectl: Kubectl, widgets: Collection) -> None:
    listed = {row[0]: row for row in rows(kubectl("api-resources", "--no-headers"))}
    assert listed["pods"][1:] == ["po", "v1", "true", "Pod"]
    assert listed["widgets"][1:] == ["wd", "conformance.example.com/v1", "true", "Widget"]


def test_explain_knows_the_fields_of_a_custom_resource(
    kubectl: Kubectl, rest: Rest, widgets: Collection
) -> None:
    schemas = f"/openapi/v3/apis/{GROUP_VERSION}"
    assert eventually(lambda: '"kind":"Widget"' in rest.get(schemas).text.replace(" ", ""))
    printed = kubectl("explain", "widgets.spec")
    assert "KIND:       Widget" in printed
    assert "size\t<integer> -required-" in printed


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("pod.spec.containers", "  image\t<string>\n    Container image name."),
        ("pod.spec --recursive", "      requiredDuringSchedulingIgnoredDuringExecution\t<NodeSelector>"),
        ("deployment --api-version=apps/v1", "GROUP:      apps\nKIND:       Deployment\nVERSION:    v1"),
        ("events --api-version=events.k8s.io/v1", "  reportingController\t<string>"),
        ("crd.spec.versions.schema", "  openAPIV3Schema\t<JSONSchemaProps>"),
    ],
)
def test_explain_knows_the_fields_of_built_in_kinds(kubectl: Kubectl, arguments: str, line: str) -> None:
    assert line in kubectl("explain", *arguments.split())


def test_wait_for_a_condition(kubectl: Kubectl, rest: Rest, namespace: str) -> None:
    running(rest, namespace, pod("a"))
    assert kubectl("wait", "--for=condition=Ready", "pod/a", WAIT) == "pod/a condition met\n"
    assert kubectl("wait", "--for=delete", "pod/b", WAIT) == ""


def test_version(kubectl: Kubectl) -> None:
    assert "Server Version: v1." in kubectl("version")
