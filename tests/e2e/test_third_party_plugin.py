"""A third-party package: installed beside koordpy, enabled by configuration, with a visible effect."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.embedded.apiserver import ApiServer
from tests import loopback
from tests.e2e.controlplane.process import free_port
from tests.e2e.installed import PROJECT, Installed, build_wheel
from tests.integration.apiserver.objects import node, pod
from tests.integration.apiserver.rest import Rest, ok

PACKAGE = PROJECT / "examples" / "koordpy-plugin-zone-guard"
ZONES = "zone-guard.example.com/zones"
ZONE_LABEL = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def with_plugin(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    wheel = build_wheel(PACKAGE, tmp_path_factory.mktemp("plugin"))
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    installed.pip("install", *options, wheel)
    yield installed
    installed.pip("uninstall", "--quiet", "--yes", "koordpy-plugin-zone-guard")


@pytest.fixture(scope="module")
def rest() -> Iterator[Rest]:
    """A cluster with a node in each of three zones and a namespace whose pods are bound to two of them."""
    with ApiServer.in_thread(crds=[PROJECT / "deploy" / "crds"]) as server:
        client = Rest(server.url)
        with client.http:
            for zone in ("eu-1a", "eu-1b", "us-1a"):
                ok(client.collection("nodes").create(node(f"node-{zone}", {ZONE_LABEL: zone})), 201)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "payments"}}
            ok(client.collection("namespaces").create(namespace), 201)
            yield client


@pytest.fixture(scope="module")
def ports(with_plugin: Installed, rest: Rest) -> Iterator[dict[str, int]]:
    """A running `koordpy serve` with the plugin's two halves switched on, and the API server calling it."""
    ports = {part: free_port() for part in ("admission", "extender", "debug")}
    work = with_plugin.work
    scheduler = work / "scheduler.yaml"
    scheduler.write_text(yaml.safe_dump(SCHEDULER))
    settings = {
        "apiVersion": "config.koordpy.dev/v1alpha1",
        "kind": "KoordpyConfiguration",
        "client": {"server": str(rest.http.base_url).rstrip("/")},
        "admission": {
            "bindAddress": "127.0.0.1",
            "port": ports["admission"],
            "certDir": str(work / "certs"),
            "enabled": [
                {
                    "name": "mutate-pod.ZoneGuard",
                    "args": {"zonesByNamespace": {"payments": ["eu-1a", "eu-1b"]}},
                }
            ],
        },
        "extender": {"port": ports["extender"], "schedulerConfig": str(scheduler)},
        "debug": {"port": ports["debug"]},
    }
    with with_plugin.serving(settings):
        register_webhook(rest, ports["admission"], work / "certs" / "ca-cert.pem")
        yield ports


SCHEDULER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "ZoneGuard"}]}},
            "pluginConfig": [{"name": "ZoneGuard", "args": {"closedZones": ["eu-1b"]}}],
        }
    ],
}


def register_webhook(rest: Rest, port: int, ca: Path) -> None:
    """Have the API server call koordpy, as the shipped manifest says, on this machine."""
    document = yaml.safe_load((PROJECT / "deploy" / "webhooks" / "mutating.yaml").read_text())
    document["webhooks"] = [w for w in document["webhooks"] if w["name"].startswith("mpod-")]
    bundle = base64.b64encode(ca.read_bytes()).decode()
    for webhook in document["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
    ok(rest.collection("mutatingwebhookconfigurations").create(document), 201)


def test_its_handler_and_plugin_are_found(with_plugin: Installed) -> None:
    listed = with_plugin.command("koordpy", "version")
    assert "mutate-pod.ZoneGuard" in listed
    assert " ZoneGuard" in listed


def test_its_handler_changes_new_pods(rest: Rest, ports: dict[str, int]) -> None:
    created = ok(rest.collection("pods", "payments").create(pod("mutated")), 201)
    assert created["metadata"]["annotations"][ZONES] == "eu-1a,eu-1b"


def test_its_handler_denies_pods(rest: Rest, ports: dict[str, int]) -> None:
    document = pod("denied")
    document["metadata"]["annotations"] = {ZONES: "us-1a"}
    response = rest.collection("pods", "payments").create(document)
    assert response.status_code == 403
    assert "us-1a is not among the zones of namespace payments: eu-1a,eu-1b" in response.json()["message"]


def test_its_plugin_refuses_nodes_with_its_reasons(rest: Rest, ports: dict[str, int]) -> None:
    created = ok(rest.collection("pods", "payments").create(pod("placed")), 201)
    names = ["node-eu-1a", "node-eu-1b", "node-us-1a"]
    answer = filtered(ports["extender"], created, names)
    assert answer["NodeNames"] == ["node-eu-1a"]
    assert answer["FailedAndUnresolvableNodes"] == {
        "node-eu-1b": "node(s) were in a closed zone",
        "node-us-1a": "node(s) were outside the pod's zones",
    }


def filtered(port: int, document: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """What the extender answers kube-scheduler about a pod and nodes."""
    args = {"Pod": document, "Nodes": None, "NodeNames": names}
    response = loopback.post(f"http://127.0.0.1:{port}/extender/filter", json=args)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer
