"""The manifests give the node agent what its features declare, and nothing else; and so does the guide."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from koordpy import settings
from koordpy.agent.engine.agent import declared_flags
from koordpy.agent.engine.plugins import Installed
from koordpy.api.needs import Privilege, Right
from koordpy.features.catalog import features
from koordpy.features.feature import Feature, Part, following
from tests.manifests.render import DEPLOY
from tests.manifests.rights import grants_of

Document = dict[str, Any]

AGENT: Final = DEPLOY / "kustomize" / "base" / "qos-agent"
COMPONENTS: Final = DEPLOY / "kustomize" / "components"
OVERLAY: Final = DEPLOY / "kustomize" / "overlays" / "agent-gates"
GUIDE: Final = Path(__file__).parents[3] / "docs" / "node-agent.md"

OF_COMPONENTS: Final = {
    "agent-bandwidth": {"TCNetworkQoS"},
    "agent-block-io": {"BlkioReconcile", "nodestorageinfo"},
    "agent-core-scheduling": {"CoreSched"},
    "agent-cpi": {"cpi"},
    "agent-devices": {"gpu", "rdma", "xpu"},
    "agent-evict-by-api": {"eviction through the API server"},
    "agent-kernel-settings": {"SystemConfigReconcile", "coldmemoryresource", "GroupIdentity", "CoreSched"},
    "agent-kill-containers": {"CPUEvict", "memoryEvict"},
    "agent-oom-scores": {"OOMScoreAdj"},
    "agent-pods-from-kubelet": {"pods from the kubelet"},
    "agent-pressure-triggers": {"pressure triggers"},
    "agent-resctrl": {"ResctrlReconcile", "Resctrl", "resctrl"},
    "agent-terway-qos": {"TerwayQoS"},
}
"""The features that each component is for."""

OWN_FOLDERS: Final = {"/var/lib/koordpy/prediction-checkpoints", "/var/run/koordlet"}
"""Host paths of the agent's own files."""


def agent_features() -> dict[str, Feature]:
    return {feature.name: feature for feature in features() if feature.part is Part.AGENT}


def of_pod(spec: Document) -> set[str]:
    """Return the privileges that a pod of the agent, or a part of its spec, asks for."""
    found = {name for name in ("hostNetwork", "hostPID") if spec.get(name)}
    for container in spec.get("containers", []):
        capabilities = container.get("securityContext", {}).get("capabilities", {})
        found |= {f"CAP_{name}" for name in capabilities.get("add", [])}
        found |= {"privileged"} if container.get("securityContext", {}).get("privileged") else set()
    found |= {volume["hostPath"]["path"] for volume in spec.get("volumes", []) if "hostPath" in volume}
    return found


def of_component(name: str) -> set[str]:
    """Return the privileges that a component adds, by its patches."""
    found: set[str] = set()
    kustomization = yaml.safe_load((COMPONENTS / name / "kustomization.yaml").read_text())
    for patch in kustomization.get("patches", []):
        if "path" in patch:
            document = yaml.safe_load((COMPONENTS / name / patch["path"]).read_text())
            found |= of_pod(document["spec"]["template"]["spec"])
            continue
        for operation in yaml.safe_load(patch["patch"]):
            path, value = operation["path"], operation["value"]
            field = path.removeprefix("/spec/template/spec/")
            if field in ("hostNetwork", "hostPID") and value is True:
                found.add(field)
            elif path.endswith("/capabilities/add/-"):
                found.add(f"CAP_{value}")
            else:
                assert path.endswith(("/args/-", "/egress/0/ports/-", "/dnsPolicy")), path
    return found


def test_every_component_of_the_agent_is_examined() -> None:
    assert set(OF_COMPONENTS) == {folder.name for folder in COMPONENTS.glob("agent-*")}


@pytest.mark.parametrize("name", OF_COMPONENTS)
def test_a_component_gives_the_privileges_that_its_features_declare(name: str) -> None:
    known = agent_features()
    declared = {need.privilege.value for of in OF_COMPONENTS[name] for need in known[of].privileges}
    if name == "agent-core-scheduling":
        declared -= {Privilege.PROC}  # of kernels with a switch: agent-kernel-settings
    if name == "agent-kernel-settings":
        declared &= {Privilege.PROC, Privilege.SYS}
    assert of_component(name) == declared


@pytest.mark.parametrize("name", OF_COMPONENTS)
def test_the_role_of_a_component_is_what_its_features_need_besides(name: str) -> None:
    known = agent_features()
    base = list(yaml.safe_load_all((AGENT / "rbac.yaml").read_text()))
    given_already = {as_right(grant) for grant in grants_of("koordpy-qos-agent", base)}
    needed = {
        right
        for of in OF_COMPONENTS[name]
        for right in (*known[of].rights, *following(known[of].follows))
        if right not in given_already
    }
    file = COMPONENTS / name / "rbac.yaml"
    documents = list(yaml.safe_load_all(file.read_text())) if file.exists() else []
    assert {as_right(grant) for grant in grants_of("koordpy-qos-agent", documents)} == needed


def as_right(grant: Any) -> Right:
    return Right(grant.verb, grant.resource, grant.group, grant.namespace, grant.name)


def test_the_daemon_set_has_what_the_features_that_are_on_need_on_every_node_and_nothing_else() -> None:
    on = [feature for feature in agent_features().values() if feature.on_by_default]
    needed = {need.privilege.value for feature in on for need in feature.privileges if need.on_every_node}
    pod = yaml.safe_load((AGENT / "daemonset.yaml").read_text())["spec"]["template"]["spec"]
    assert of_pod(pod) == needed | OWN_FOLDERS


def test_secrets_and_tokens_of_pods_are_hidden_from_the_agent() -> None:
    pod = yaml.safe_load((AGENT / "daemonset.yaml").read_text())["spec"]["template"]["spec"]
    [container] = pod["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    [hidden] = [
        volume for volume in pod["volumes"] if volume["name"] == mounts["/var/lib/kubelet/pods"]["name"]
    ]
    assert "emptyDir" in hidden
    assert mounts["/var/lib/kubelet"]["readOnly"]


def test_folders_are_mounted_where_the_arguments_say() -> None:
    known = declared_flags(Installed.find()).values
    for file in COMPONENTS.glob("agent-*/daemonset.yaml"):
        kustomization = (file.parent / "kustomization.yaml").read_text()
        flags = dict(re.findall(r"value: --([a-z-]+)=(\S+)", kustomization))
        assert set(flags) <= set(known)
        spec = yaml.safe_load(file.read_text())["spec"]["template"]["spec"]
        mounted = {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
        assert mounted == set(flags.values()) or mounted == {known["terway-qos-dir"]}


def test_the_overlay_with_all_features_of_the_agent_has_them_and_their_components() -> None:
    found = yaml.safe_load((OVERLAY / "kustomization.yaml").read_text())
    named = {path.rpartition("/")[2] for path in found["components"]}
    # Killing takes privileges where pods are not evicted through the API server.
    assert named == set(OF_COMPONENTS) - {"agent-kill-containers"}
    gates = settings.load(OVERLAY / "koordpy.yaml").feature_gates
    on = {name for name, feature in agent_features().items() if not feature.gates or gates_on(feature, gates)}
    for name in named:
        assert OF_COMPONENTS[name] <= on | {"eviction through the API server", "pods from the kubelet"}


def gates_on(feature: Feature, gates: dict[str, bool]) -> bool:
    return any(gates.get(gate, bool(feature.on_by_default)) for gate in feature.gates)


def table() -> dict[tuple[str, str], str]:
    """Return what happens without a privilege, by privilege and feature, as the guide's table says."""
    rows = re.findall(r"^\| `([^`]+)`[^|]*\| `([^`]+)`[^|]*\|[^|]*\| ([^|]+) \|$", GUIDE.read_text(), re.M)
    return {(privilege, feature): without for privilege, feature, without in rows}


def test_the_guide_says_of_every_privilege_what_needs_it_and_what_happens_without() -> None:
    declared = {
        (need.privilege.value, name): need.without
        for name, feature in agent_features().items()
        for need in feature.privileges
    }
    written = {key: without for key, without in table().items() if key in declared}
    assert written == declared
