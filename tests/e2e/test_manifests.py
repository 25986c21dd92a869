"""What `deploy/` installs, applied to a real kube-apiserver: as kustomize renders it, and as Helm does."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.plane import ControlPlane
from tests.manifests import render
from tests.manifests.cert_manager import CERT_MANAGER

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of this module's own: its webhooks would affect all other tests."""
    with ControlPlane() as made:
        made.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(CERT_MANAGER))
        yield made


def apply(plane: ControlPlane, manifests: str, *how: str) -> None:
    done = plane.kubectl("apply", "--validate=strict", *how, "-f", "-", stdin=manifests)
    assert "unknown field" not in done.stderr


def versions(plane: ControlPlane, manifests: str) -> dict[tuple[str, str, str], str]:
    """Return the revisions of all objects in these manifests."""
    found = json.loads(plane.kubectl("get", "-o", "json", "-f", "-", stdin=manifests).stdout)
    return {render.key(item): render.revision(item) for item in found["items"]}


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client-side", "server-side"])
@pytest.mark.parametrize("overlay", render.OVERLAYS)
def test_an_overlay_is_taken_and_a_second_time_changes_nothing(
    plane: ControlPlane, overlay: str, how: tuple[str, ...]
) -> None:
    manifests = render.kustomize(overlay)
    apply(plane, manifests, *how)
    before = versions(plane, manifests)
    assert set(before) == {render.key(document) for document in render.documents(overlay)}
    apply(plane, manifests, *how)
    assert versions(plane, manifests) == before


@pytest.mark.parametrize("overlay", render.OVERLAYS)
def test_pods_of_an_overlay_are_admitted_by_its_namespace(plane: ControlPlane, overlay: str) -> None:
    apply(plane, render.kustomize(overlay))
    # No server answers the webhooks here; the pods must still be admitted.
    for document in render.documents(overlay):
        if document["kind"] not in ("Deployment", "DaemonSet"):
            continue
        template = document["spec"]["template"]
        name = f"{document['metadata']['name']}-{overlay}"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": name, "namespace": "koordinator-system"},
            "spec": template["spec"],
        }
        done = plane.kubectl("create", "--validate=strict", "-f", "-", stdin=yaml.safe_dump(pod))
        assert done.stderr == ""
        plane.kubectl("delete", "pod", "-n", "koordinator-system", name, "--force", "--grace-period=0")


def test_webhooks_that_do_not_answer_hold_up_no_pod_that_the_cluster_needs(plane: ControlPlane) -> None:
    apply(plane, render.kustomize("webhooks-only"))
    folder = render.DEPLOY / "kustomize" / "components" / "webhooks-fail-closed"
    for patch in yaml.safe_load_all((folder / "policies.yaml").read_text()):
        name = f"{patch['kind']}/{patch['metadata']['name']}"
        plane.kubectl("patch", name, "--patch", json.dumps({"webhooks": patch["webhooks"]}))

    def creation(name: str, namespace: str, **meta: Any) -> str:
        meta = {"name": name, "namespace": namespace, **meta}
        spec = {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        return plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pod), check=False).stderr

    mirror = {"kubernetes.io/config.mirror": "x"}
    assert creation("dns", "kube-system") == ""
    assert creation("static", "default", annotations=mirror) == ""
    assert "failed calling webhook" in creation("app", "default")
    assert "failed calling webhook" in creation("app", "default", annotations={"other": "x"})


def test_custom_resources_are_established_and_kubectl_prints_their_columns(plane: ControlPlane) -> None:
    apply(plane, render.kustomize("webhooks-only"))
    # No server answers the webhooks of quotas here.
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        plane.kubectl("delete", kind, "--all")
    definitions = [d for d in render.documents("webhooks-only") if d["kind"] == "CustomResourceDefinition"]
    assert len(definitions) == 13
    for definition in definitions:
        name, spec = definition["metadata"]["name"], definition["spec"]
        plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=120s")
        for version in spec["versions"]:
            if version["storage"]:
                plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(_example(spec, version)))
        for version in spec["versions"]:
            printed = plane.kubectl(
                "get", f"{spec['names']['plural']}.{version['name']}.{spec['group']}"
            ).stdout
            assert printed.split("\n")[0].split() == ["NAME", *_columns(version)], name
            assert printed.split("\n")[1].split()[0] == "example"


def test_the_way_to_remove_it_leaves_what_the_documentation_says(plane: ControlPlane) -> None:
    apply(plane, render.kustomize("full"))
    plane.kubectl("create", "secret", "generic", "koordinator-webhook-certs", "-n", "koordinator-system")
    text = (render.DEPLOY.parent / "docs" / "install.md").read_text().partition("## Removing")[2]
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    commands = "".join(blocks).replace("\\\n", " ").splitlines()
    assert len(commands) == 7
    for command in commands:
        prompt, program, *args = shlex.split(command)
        assert (prompt, program) == ("$", "kubectl")
        plane.kubectl(*args)
    left = plane.kubectl("get", "-o", "name", "--ignore-not-found", "-f", "-", stdin=render.kustomize("full"))
    kinds = {name.partition("/")[0].partition(".")[0] for name in left.stdout.split()}
    assert kinds == {"customresourcedefinition", "namespace", "priorityclass"}


def _columns(version: dict[str, Any]) -> list[str]:
    """Return the headings after the name; without columns of its own a resource has its age."""
    columns = version.get("additionalPrinterColumns") or [{"name": "Age"}]
    return [column["name"].upper() for column in columns if not column.get("priority")]


def _example(spec: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """Return the smallest object that a definition allows: its required fields are lists."""
    required = version["schema"]["openAPIV3Schema"].get("required", [])
    meta = {"name": "example"} | ({"namespace": "default"} if spec["scope"] == "Namespaced" else {})
    return {
        "apiVersion": f"{spec['group']}/{version['name']}",
        "kind": spec["names"]["kind"],
        "metadata": meta,
        **{field: [] for field in required},
    }
