"""The Helm chart: the same objects as the kustomize overlays, and installed on a real kube-apiserver."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.lib.text_documents import read_all_yaml
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.helm import build
from tests.manifests import render

pytestmark = pytest.mark.timeout(900)

CHART = render.DEPLOY / "helm" / "koordpy"
NAMESPACE = "koordinator-system"

_ADMISSION_ALONE = {part: {"enabled": False} for part in ("scheduler", "worker", "qosAgent")}

_AGENT_GATES = (
    "Accelerators",
    "BECPUEvict",
    "BEMemoryEvict",
    "BlkIOReconcile",
    "CPICollector",
    "CgroupReconcile",
    "ColdPageCollector",
    "CoreSched",
    "OOMScoreAdj",
    "PressureTriggers",
    "RDMADevices",
    "Resctrl",
    "ResctrlCollector",
    "SystemConfig",
    "TCNetworkQoS",
    "TerwayQoS",
)
_AGENT_FLAGS = {"enable-resctrl-collector": True, "only-evict-by-api": True, "pod-source": "kubelet"}

VALUES: dict[str, dict[str, Any]] = {
    "agent-gates": {
        "featureGates": dict.fromkeys(_AGENT_GATES, True),
        "qosAgent": {"config": {"agent": {"flags": _AGENT_FLAGS}}},
    },
    "all-gates": {
        "featureGates": dict.fromkeys(
            (
                "ColocationProfileController",
                "ConfigMapValidatingWebhook",
                "EnablePodEnhancedValidator",
                "EnableQuotaAdmission",
                "MultiQuotaTree",
                "NodeMutatingWebhook",
                "NodeValidatingWebhook",
                "ReservationMutatingWebhook",
            ),
            True,
        )
    },
    "cert-manager": {**_ADMISSION_ALONE, "certManager": {"enabled": True}},
    "full": {},
    "webhooks-only": _ADMISSION_ALONE,
}
"""The values that give what an overlay gives."""


def helm(*args: str, values: dict[str, Any] | None = None, plane: ControlPlane | None = None) -> str:
    """Run helm; a failure shows what it said. Values are read from standard input."""
    environment = {**os.environ, "HELM_NAMESPACE": NAMESPACE}
    if plane is not None:
        environment |= {"KUBECONFIG": str(plane.kubeconfig), "HOME": str(plane.folder)}
    done = subprocess.run(
        [build.ensure(), *args, *([] if values is None else ["--values", "-"])],
        input=yaml.safe_dump(values),
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        raise HelmError(done.stderr + done.stdout)
    return done.stdout


class HelmError(Exception):
    """Helm refused; the message is what it said."""


def rendered(values: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    text = helm("template", "koordpy", str(CHART), values=values)
    documents = [render.comparable(document) for document in read_all_yaml(text) if document]
    found = {render.key(document): document for document in documents}
    assert len(found) == len(documents)
    return found


@pytest.mark.parametrize("overlay", render.OVERLAYS)
def test_the_chart_gives_the_objects_of_an_overlay(overlay: str) -> None:
    expected = [render.comparable(document) for document in render.documents(overlay)]
    # A release goes into a namespace that is there already.
    expected = [document for document in expected if document["kind"] != "Namespace"]
    found = rendered(VALUES[overlay])
    assert set(found) == {render.key(document) for document in expected}
    for document in expected:
        assert found[render.key(document)] == document


def test_gangs_and_quotas_are_those_of_the_component() -> None:
    found = rendered({"scheduler": {"gangsAndQuotas": True}})
    folder = render.DEPLOY / "kustomize" / "components" / "gangs-and-quotas"
    for file in (folder / "role" / "rbac.yaml", folder / "rbac.yaml"):
        for document in read_all_yaml(file.read_text()):
            expected = render.comparable(document)
            own = found[render.key(expected)]
            for part in ("rules", "roleRef", "subjects"):
                assert own.get(part) == expected.get(part), part
    profiles = yaml.safe_load((folder / "koordpy-profiles-gangs-and-quotas.yaml").read_text())
    # The webhooks and the worker know the extender's profiles too.
    shipped = [
        document["metadata"]["name"]
        for document in found.values()
        if document["kind"] == "ConfigMap" and profiles in document["data"].values()
    ]
    assert shipped
    with pytest.raises(HelmError, match=r"needs scheduler\.reservations"):
        rendered({"scheduler": {"gangsAndQuotas": True, "reservations": False}})


@pytest.mark.parametrize("gangs", [False, True])
def test_numa_and_devices_are_those_of_the_component(gangs: bool) -> None:
    found = rendered({"scheduler": {"numaAndDevices": True, "gangsAndQuotas": gangs}})
    components = render.DEPLOY / "kustomize" / "components"
    folder = components / "numa-and-devices"
    for file in (folder / "role" / "rbac.yaml", folder / "rbac.yaml"):
        for document in read_all_yaml(file.read_text()):
            expected = render.comparable(document)
            own = found[render.key(expected)]
            for part in ("rules", "roleRef", "subjects"):
                assert own.get(part) == expected.get(part), part
    if gangs:
        both = components / "numa-and-devices-with-gangs-and-quotas" / "profiles"
        profiles = both / "koordpy-profiles-numa-devices-gangs-and-quotas.yaml"
    else:
        profiles = folder / "koordpy-profiles-numa-and-devices.yaml"
    data = found["ConfigMap", NAMESPACE, "koordpy-scheduler-profiles"]["data"]
    assert data["koordpy-profiles.yaml"] == yaml.safe_load(profiles.read_text())
    scheduler = found["ConfigMap", NAMESPACE, "koordpy-scheduler-config"]["data"][
        "kube-scheduler-config.yaml"
    ]
    assert scheduler == yaml.safe_load((folder / "kube-scheduler-config.yaml").read_text())
    with pytest.raises(HelmError, match=r"needs scheduler\.reservations"):
        rendered({"scheduler": {"numaAndDevices": True, "reservations": False}})


@pytest.mark.parametrize(
    ("component", "values"),
    [
        ("gangs-and-quotas", {"gangsAndQuotas": True}),
        ("numa-and-devices", {"numaAndDevices": True}),
        ("numa-and-devices-with-gangs-and-quotas", {"gangsAndQuotas": True, "numaAndDevices": True}),
    ],
)
def test_a_component_configures_the_extender_as_its_value_does(
    component: str, values: dict[str, bool], tmp_path: Path
) -> None:
    base = os.path.relpath(render.DEPLOY / "kustomize", tmp_path.resolve())
    overlay = {
        "kind": "Kustomization",
        "resources": [f"{base}/overlays/full"],
        "components": [f"{base}/components/{component}"],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    documents = map(render.comparable, read_all_yaml(render.kustomized(tmp_path)))
    expected = rendered({"scheduler": values})
    for document in documents:
        if document["kind"] == "ConfigMap":
            assert document["data"] == expected[render.key(document)]["data"], document["metadata"]["name"]


@pytest.mark.parametrize("gates", [{}, {"DevicePluginAdaption": False}, {"DevicePluginAdaption": True}])
def test_only_with_their_gate_nodes_may_be_locked_for_device_plugins(gates: dict[str, bool]) -> None:
    found = rendered({"scheduler": {"numaAndDevices": True, "config": {"featureGates": gates}}})
    folder = render.DEPLOY / "kustomize" / "components" / "device-plugins"
    for document in read_all_yaml((folder / "rbac.yaml").read_text()):
        expected = render.comparable(document)
        key = render.key(expected)
        assert (key in found) is gates.get("DevicePluginAdaption", False)
        if key in found:
            for part in ("rules", "roleRef", "subjects"):
                assert found[key].get(part) == expected.get(part), part


def test_the_chart_has_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_every_value_is_described_in_the_schema_and_by_a_comment() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    lines = (CHART / "values.yaml").read_text().splitlines()
    for part, fields in values.items():
        assert part in schema["properties"]
        known = schema["properties"][part].get("properties", {})
        for field in fields:
            assert field in known, f"{part}.{field}"
    # What a part is, is said above it or above its first field.
    for index, line in enumerate(lines):
        if line and not line.startswith((" ", "#")):
            near = [lines[index - 1], *lines[index + 1 : index + 2]]
            assert any(other.lstrip().startswith("#") for other in near), line


@pytest.mark.parametrize(
    "values",
    [
        {"featureGates": {"NoSuchGate": True}},
        {"webhooks": {"replicas": 0}},
        {"webhooks": {"failurePolicy": "Sometimes"}},
        {"worker": {"replcias": 2}},
    ],
    ids=["gate", "replicas", "policy", "typo"],
)
def test_values_that_mean_nothing_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(HelmError, match="schema"):
        rendered(values)


def test_values_reach_the_objects() -> None:
    found = rendered(
        {
            "image": {
                "repository": "registry.example/koordpy",
                "tag": "1.2.3",
                "pullSecrets": [{"name": "key"}],
            },
            "webhooks": {
                "replicas": 3,
                "failurePolicy": "Fail",
                "excludedNamespaces": ["kube-system", "cni"],
                "config": {"admission": {"history": 7}},
                "nodeSelector": {"role": "system"},
            },
            "scheduler": {"kubeScheduler": {"config": {"percentageOfNodesToScore": 100}}},
            "worker": {"extraRules": [{"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"]}]},
            "networkPolicies": {"enabled": False},
        }
    )
    deployment = found["Deployment", NAMESPACE, "koordpy-webhooks"]
    spec = deployment["spec"]["template"]["spec"]
    assert deployment["spec"]["replicas"] == 3
    assert spec["containers"][0]["image"] == "registry.example/koordpy:1.2.3"
    assert (spec["imagePullSecrets"], spec["nodeSelector"]) == ([{"name": "key"}], {"role": "system"})
    config = found["ConfigMap", NAMESPACE, "koordpy-webhooks-config"]["data"]["koordpy.yaml"]
    assert config["admission"]["history"] == 7
    assert config["admission"]["certificates"]["mode"] == "secret"
    name = "koordinator-mutating-webhook-configuration"
    webhook = found["MutatingWebhookConfiguration", "", name]["webhooks"][0]
    assert webhook["failurePolicy"] == "Fail"
    assert webhook["matchConditions"][0]["expression"] == (
        "!(request.namespace in ['koordinator-system', 'kube-system', 'cni'])"
    )
    scheduler = found["ConfigMap", NAMESPACE, "koordpy-scheduler-config"]["data"][
        "kube-scheduler-config.yaml"
    ]
    assert scheduler["percentageOfNodesToScore"] == 100
    assert len(scheduler["extenders"]) == 2
    assert found["ClusterRole", "", "koordpy-worker"]["rules"][-1]["resources"] == ["poddisruptionbudgets"]
    assert not [kind for kind, _, _ in found if kind == "NetworkPolicy"]


def test_light_mode_is_one_value() -> None:
    found = rendered({"scheduler": {"mode": "light"}})
    configs = found["ConfigMap", NAMESPACE, "koordpy-scheduler-config"]["data"]
    extender = configs["koordpy.yaml"]["extender"]
    assert (extender["mode"], extender["nodeChoice"]) == ("light", "kube-scheduler")
    [entry] = configs["kube-scheduler-config.yaml"]["extenders"]
    assert (entry["filterVerb"], "bindVerb" in entry) == ("filter", False)
    profiles = found["ConfigMap", NAMESPACE, "koordpy-scheduler-profiles"]["data"]["koordpy-profiles.yaml"]
    assert all("reserve" not in profile["plugins"] for profile in profiles["profiles"])
    assert not [name for _, _, name in found if name == "koordpy-reservations"]


@pytest.mark.parametrize("reservations", [True, False])
def test_the_worker_proves_evictions_with_the_extenders_profiles(reservations: bool) -> None:
    found = rendered({"scheduler": {"reservations": reservations}})
    pods = {
        name: found["Deployment", NAMESPACE, f"koordpy-{name}"]["spec"]["template"]["spec"]
        for name in ("scheduler", "worker")
    }
    assert pods["worker"]["containers"][0]["args"][-2:] == [
        "--scheduler-config",
        "/etc/koordpy/koordpy-profiles.yaml",
    ]
    for pod in pods.values():
        [volume] = [volume for volume in pod["volumes"] if volume["name"] == "config"]
        assert {"configMap": {"name": "koordpy-scheduler-profiles"}} in volume["projected"]["sources"]


def test_a_worker_without_the_scheduler_has_the_packaged_profiles() -> None:
    found = rendered({"scheduler": {"enabled": False}})
    pod = found["Deployment", NAMESPACE, "koordpy-worker"]["spec"]["template"]["spec"]
    assert "--scheduler-config" not in pod["containers"][0]["args"]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "config"]
    assert volume["configMap"] == {"name": "koordpy-worker-config"}


def test_client_certificates_are_one_value_and_what_the_component_gives() -> None:
    found = rendered({"scheduler": {"clientCertificates": True}})
    component = render.DEPLOY / "kustomize" / "components" / "extender-client-certificates"
    config = found["ConfigMap", NAMESPACE, "koordpy-scheduler-config"]["data"]["kube-scheduler-config.yaml"]
    assert config == yaml.safe_load((component / "kube-scheduler-config.yaml").read_text())
    patch = yaml.safe_load((component / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    pod = found["Deployment", NAMESPACE, "koordpy-scheduler"]["spec"]["template"]["spec"]
    for kind in ("initContainers", "containers"):
        [ours], [theirs] = pod[kind], patch[kind]
        assert theirs["volumeMounts"][0] in ours["volumeMounts"]
        assert ours["args"] == theirs.get("args", ours["args"])
    assert patch["volumes"][0] in pod["volumes"]


@pytest.mark.parametrize("reservations", [True, False])
def test_every_extender_may_hold_the_lease(reservations: bool) -> None:
    found = rendered({"scheduler": {"reservations": reservations}})
    role = found["Role", NAMESPACE, "koordpy-extender"]
    assert role["rules"][-1]["resourceNames"] == ["koord-scheduler"]


def test_another_namespace_is_used_everywhere() -> None:
    text = helm("template", "koordpy", str(CHART), "--namespace", "elsewhere", "--set", "crds.install=false")
    assert NAMESPACE not in text
    assert (
        "koordinator-webhook-service.elsewhere.svc" not in text
    )  # the certificate's name comes from the settings
    assert text.count("elsewhere") > 30


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        yield made


def test_a_release_is_installed_upgraded_and_removed_but_for_custom_resources(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.kubectl("create", "namespace", NAMESPACE)
    helm("install", "koordpy", str(CHART), plane=plane)
    manifests = helm("get", "manifest", "koordpy", plane=plane)

    def versions() -> dict[str, str]:
        got = json.loads(plane.kubectl("get", "-o", "json", "-f", "-", stdin=manifests).stdout)
        return {str(render.key(item)): render.revision(item) for item in got["items"]}

    before = versions()
    assert len(before) > 50
    helm("upgrade", "koordpy", str(CHART), plane=plane)
    assert versions() == before
    helm("uninstall", "koordpy", plane=plane)
    left = plane.kubectl("get", "-o", "name", "--ignore-not-found", "-f", "-", stdin=manifests).stdout.split()
    assert {name.partition("/")[0] for name in left} == {"customresourcedefinition.apiextensions.k8s.io"}
    assert len(left) == 13
