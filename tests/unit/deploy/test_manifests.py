"""The manifests of `deploy/kustomize` and `deploy/helm`, as far as that needs neither kustomize nor Helm."""

import json
import re
import tomllib
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import cli, settings
from koordpy.admission import gates as admission_gates
from koordpy.admission.serving import failure_policy
from koordpy.agent.engine.agent import declared_flags
from koordpy.agent.engine.plugins import Installed as AgentPlugins
from koordpy.agent.interface import gates as qos_gates
from koordpy.compose import debug_access
from koordpy.compose.parts import admission
from koordpy.controllers import host as controller_host
from koordpy.descheduling.config import loading as descheduling_config
from koordpy.lib import certificates
from koordpy.scheduling.profiles import config as scheduling_config

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
BASE = DEPLOY / "kustomize" / "base"
CHART = DEPLOY / "helm" / "koordpy"

Document = dict[str, Any]

KUSTOMIZATIONS = [
    *sorted((DEPLOY / "kustomize").rglob("kustomization.yaml")),
    *sorted(DEPLOY.rglob("Kustomization")),
]
SETTINGS = sorted((DEPLOY / "kustomize").rglob("koordpy.yaml"))


def documents(kind: str) -> list[Document]:
    files = (path for path in sorted(BASE.rglob("*.yaml")) if path.name != "kustomization.yaml")
    return [d for path in files for d in yaml.safe_load_all(path.read_text()) if d and d.get("kind") == kind]


WORKLOADS = {d["metadata"]["name"]: d for kind in ("Deployment", "DaemonSet") for d in documents(kind)}
PODS = {name: d["spec"]["template"]["spec"] for name, d in WORKLOADS.items()}
CONTAINERS = {
    f"{name}/{container['name']}": container
    for name, pod in PODS.items()
    for container in [*pod.get("initContainers", []), *pod["containers"]]
}


AGENT = "koordpy-qos-agent/koordpy"


def relative(path: Path) -> str:
    return str(path.relative_to(DEPLOY))


def test_links_lead_to_files() -> None:
    links = [path for path in DEPLOY.rglob("*") if path.is_symlink()]
    assert links
    assert [str(path.relative_to(DEPLOY)) for path in links if not path.exists()] == []


# --- pods ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_have_no_rights_that_they_do_not_need(name: str) -> None:
    # Components of the agent add capabilities.
    capabilities = {"drop": ["ALL"], "add": []} if name == AGENT else {"drop": ["ALL"]}
    assert CONTAINERS[name]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": capabilities,
    }


@pytest.mark.parametrize("name", PODS)
def test_pods_run_confined_and_only_the_qos_agent_as_root(name: str) -> None:
    pod = PODS[name]
    context = pod["securityContext"]
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    on_host = [volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume]
    if name == "koordpy-qos-agent":
        assert context["runAsUser"] == 0
        assert on_host == [
            "/sys/fs/cgroup",
            "/var/lib/koordpy/prediction-checkpoints",
            "/var/run/koordlet",
            "/var/lib/kubelet",
        ]
    else:
        assert context["runAsNonRoot"]
        assert context["runAsUser"] == 65532
        assert on_host == []


def test_the_agent_may_use_no_more_than_koordlet() -> None:
    assert CONTAINERS[AGENT]["resources"]["limits"] == {"cpu": "500m", "memory": "256Mi"}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["qosAgent"]["resources"] == CONTAINERS[AGENT]["resources"]


@pytest.mark.parametrize("file", [BASE / "qos-agent/daemonset.yaml", CHART / "templates/qos-agent.yaml"])
def test_every_folder_that_the_agent_uses_by_default_is_mounted(file: Path) -> None:
    found = declared_flags(AgentPlugins.find()).values
    written = ("audit-log-dir", "changes-dir", "prediction-checkpoint-filepath", "tsdb-path")
    mounts = re.findall(r"mountPath: (\S+)\n( +readOnly: true)?", file.read_text())
    writable = [path for path, read_only in mounts if not read_only]
    read_only = [path for path, read_only in mounts if read_only]
    for flag in written:
        assert any(str(found[flag]).startswith(path) for path in writable), flag
    assert str(found["var-lib-kubelet-dir"]).rstrip("/") in read_only


def test_the_user_is_the_images() -> None:
    assert "USER 65532:65532" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_have_probes_and_resources(name: str) -> None:
    container = CONTAINERS[name]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe].keys() & {"httpGet", "exec"}
    resources = container["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    # A CPU limit would hold up answers that kube-apiserver and kube-scheduler wait for; nobody waits for
    # the agent.
    assert set(resources["limits"]) == ({"cpu", "memory"} if name == AGENT else {"memory"})


def test_the_worker_may_use_the_memory_that_is_promised_for_5000_nodes() -> None:
    assert CONTAINERS["koordpy-worker/koordpy"]["resources"]["limits"] == {"memory": "1536Mi"}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["worker"]["resources"]["limits"] == {"memory": "1536Mi"}


@pytest.mark.parametrize("name", CONTAINERS)
def test_probed_ports_are_the_containers_own(name: str) -> None:
    container = CONTAINERS[name]
    ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    probed = {probe["httpGet"]["port"] for key, probe in container.items() if "httpGet" in (probe or ())}
    assert probed <= set(ports)
    if name.endswith("/koordpy"):
        assert set(ports.values()) <= {9876, 10251}


@pytest.mark.parametrize("path", SETTINGS, ids=relative)
def test_a_debug_api_that_others_reach_authenticates_them_over_tls(path: Path) -> None:
    debug_api = settings.load(path).debug
    if debug_api.bind_address not in debug_access.LOOPBACK:
        assert debug_api.authentication
        assert debug_api.cert_dir


@pytest.mark.parametrize("name", [name for name in CONTAINERS if name.endswith("/koordpy")])
def test_probes_over_the_network_speak_tls_with_the_certificates_of_a_volume(name: str) -> None:
    container = CONTAINERS[name]
    probes = [probe["httpGet"] for probe in container.values() if "httpGet" in (probe or ())]
    assert {probe["scheme"] for probe in probes} <= {"HTTPS"}
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert ("/var/run/koordpy/certs" in mounted) is bool(probes)


@pytest.mark.parametrize("name", PODS)
def test_pods_are_critical_and_may_end_in_peace(name: str) -> None:
    assert PODS[name]["priorityClassName"] in ("system-cluster-critical", "system-node-critical")
    least = settings.SHUTDOWN_DELAY + admission.GRACE_SECONDS if name == "koordpy-webhooks" else 30
    assert PODS[name]["terminationGracePeriodSeconds"] > least


def test_kubeadms_sidecar_is_the_deployments_but_for_whose_credentials_it_has() -> None:
    patch = yaml.safe_load((DEPLOY / "kubeadm" / "kube-scheduler+strategic.yaml").read_text())
    [sidecar] = patch["spec"]["initContainers"]
    other = CONTAINERS["koordpy-scheduler/koordpy"]
    same = ("image", "imagePullPolicy", "resources", "restartPolicy", "startupProbe", "livenessProbe")
    assert {key: sidecar[key] for key in same} == {key: other[key] for key in same}
    assert sidecar["securityContext"] == {"runAsUser": 0, "runAsGroup": 0, **other["securityContext"]}
    command = cli.cli.commands["serve"]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {argument.partition("=")[0] for argument in sidecar["args"][1:]} <= known


def test_kubeadms_extender_serves_only_kube_scheduler_since_it_shares_the_machines_network() -> None:
    patch = yaml.safe_load((DEPLOY / "kubeadm" / "kube-scheduler+strategic.yaml").read_text())
    [sidecar], [scheduler] = patch["spec"]["initContainers"], patch["spec"]["containers"]
    [argument] = [a for a in sidecar["args"] if a.startswith("--extender-cert-dir=")]
    folder = argument.partition("=")[2]
    [volume] = patch["spec"]["volumes"]
    mount = {"name": volume["name"], "mountPath": folder}
    assert "emptyDir" in volume
    assert mount in sidecar["volumeMounts"]
    assert scheduler["volumeMounts"] == [{**mount, "readOnly": True}]
    config = yaml.safe_load((DEPLOY / "kubeadm" / "kube-scheduler-config.yaml").read_text())
    assert config.pop("clientConnection") == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    for entry in config["extenders"]:
        assert (entry["enableHTTPS"], entry["tlsConfig"]) == (True, client_certificate(folder))
    assert config == with_client_certificates("scheduler/kube-scheduler-config.yaml", folder)


def test_configurations_with_client_certificates_are_the_others_but_for_tls() -> None:
    for plain, secured in (
        ("scheduler/kube-scheduler-config.yaml", "scheduler/kube-scheduler-config-tls.yaml"),
        (
            "kustomize/base/extender/kube-scheduler-config.yaml",
            "kustomize/components/extender-client-certificates/kube-scheduler-config.yaml",
        ),
    ):
        found = yaml.safe_load((DEPLOY / secured).read_text())
        assert found == with_client_certificates(plain, "/var/run/koordpy/extender")


def with_client_certificates(path: str, folder: str) -> Document:
    """Return a shipped configuration of kube-scheduler as it is with client certificates in a folder."""
    found: Document = yaml.safe_load((DEPLOY / path).read_text())
    for entry in found["extenders"]:
        url = entry["urlPrefix"].replace("http://", "https://")
        entry |= {"urlPrefix": url, "enableHTTPS": True, "tlsConfig": client_certificate(folder)}
    return found


def client_certificate(folder: str) -> Document:
    names = {
        "caFile": certificates.CA_CERT,
        "certFile": certificates.CLIENT_CERT,
        "keyFile": certificates.CLIENT_KEY,
    }
    return {field: f"{folder}/{name}" for field, name in names.items()}


@pytest.mark.parametrize("name", [name for name, d in WORKLOADS.items() if d["kind"] == "Deployment"])
def test_deployments_are_replicated_spread_and_budgeted(name: str) -> None:
    spec = WORKLOADS[name]["spec"]
    assert spec["replicas"] >= 2
    selector = spec["selector"]["matchLabels"]
    spread = PODS[name]["topologySpreadConstraints"]
    assert "kubernetes.io/hostname" in {item["topologyKey"] for item in spread}
    assert all(item["labelSelector"]["matchLabels"] == selector for item in spread)
    [budget] = [d for d in documents("PodDisruptionBudget") if d["metadata"]["name"] == name]
    assert budget["spec"]["selector"]["matchLabels"] == selector
    assert budget["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_have_an_account_and_a_network_policy(name: str) -> None:
    workload = WORKLOADS[name]
    accounts = {d["metadata"]["name"] for d in documents("ServiceAccount")}
    assert PODS[name]["serviceAccountName"] in accounts
    [policy] = [d for d in documents("NetworkPolicy") if d["metadata"]["name"] == name]
    assert policy["spec"]["podSelector"] == workload["spec"]["selector"]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    ports = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    opened = {
        port["containerPort"]
        for key, container in CONTAINERS.items()
        if key.startswith(f"{name}/")
        for port in container.get("ports", [])
    }
    assert ports == opened


@pytest.mark.parametrize("name", WORKLOADS)
def test_network_policies_name_who_may_call(name: str) -> None:
    [policy] = [d for d in documents("NetworkPolicy") if d["metadata"]["name"] == name]
    for rule in policy["spec"]["ingress"]:
        callers = rule["from"]
        assert callers
        for caller in callers:
            if name == "koordpy-webhooks":
                assert ip_network(caller["ipBlock"]["cidr"]).prefixlen >= 7
                assert ip_network(caller["ipBlock"]["cidr"]).is_private or caller["ipBlock"]["cidr"] == (
                    "100.64.0.0/10"  # of carriers, which managed clusters use
                )
            else:
                assert caller["namespaceSelector"]["matchLabels"] == {"koordpy.dev/monitoring": "true"}


def test_the_service_selects_the_webhooks() -> None:
    found = yaml.safe_load((DEPLOY / "webhooks" / "service.yaml").read_text())
    labels = WORKLOADS["koordpy-webhooks"]["spec"]["template"]["metadata"]["labels"]
    assert found["spec"]["selector"].items() <= labels.items()
    [port] = found["spec"]["ports"]
    assert port["targetPort"] == CONTAINERS["koordpy-webhooks/koordpy"]["ports"][0]["containerPort"]


# --- rights ----------------------------------------------------------------------------------------


def rules() -> Iterator[tuple[str, Document]]:
    for path in sorted((DEPLOY / "kustomize").rglob("rbac.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            for rule in document.get("rules", []):
                yield f"{relative(path)} {document['metadata']['name']}", rule


@pytest.mark.parametrize("rule", [pytest.param(rule, id=where) for where, rule in rules()])
def test_no_rule_has_wildcards_or_escalates(rule: Document) -> None:
    for part in ("apiGroups", "resources", "verbs"):
        assert "*" not in rule[part]
    assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
    if set(rule["resources"]) & {"secrets", "leases", "mutatingwebhookconfigurations"}:
        assert rule.get("resourceNames") or rule["verbs"] == ["create"]


# --- webhooks --------------------------------------------------------------------------------------


def test_every_webhook_has_a_timeout_of_its_own_and_pods_have_exclusions() -> None:
    reach = list(yaml.safe_load_all((BASE / "webhooks" / "reach.yaml").read_text()))
    changed = {webhook["name"]: webhook for document in reach for webhook in document["webhooks"]}
    shipped = {
        webhook["name"]: webhook
        for name in ("mutating", "validating")
        for webhook in yaml.safe_load((DEPLOY / "webhooks" / f"{name}.yaml").read_text())["webhooks"]
    }
    assert set(changed) == set(shipped)
    may_fail = {name for webhooks in fail_closed().values() for name in webhooks}
    for name, webhook in shipped.items():
        assert changed[name]["timeoutSeconds"] == (5 if name in may_fail else 3)
        conditions = [condition["name"] for condition in changed[name].get("matchConditions", [])]
        [resource] = webhook["rules"][0]["resources"]
        assert conditions == {
            "pods": ["not-in-a-system-namespace", "not-a-mirror-pod"],
            "pods/binding": ["not-in-a-system-namespace"],
        }.get(resource, [])


def fail_closed() -> dict[str, list[str]]:
    """Return the webhooks that may have failurePolicy Fail, by configuration."""
    found = {}
    for name in ("mutating", "validating"):
        document = yaml.safe_load((DEPLOY / "webhooks" / f"{name}.yaml").read_text())
        found[document["metadata"]["name"]] = failure_policy.names(document, failure_policy.FAIL_CLOSED)
    return found


def test_no_shipped_webhook_stops_a_cluster() -> None:
    for name in ("mutating", "validating"):
        document = yaml.safe_load((DEPLOY / "webhooks" / f"{name}.yaml").read_text())
        assert {webhook["failurePolicy"] for webhook in document["webhooks"]} == {"Ignore"}
    values = yaml.safe_load((DEPLOY / "helm" / "koordpy" / "values.yaml").read_text())
    assert values["webhooks"]["failurePolicy"] == "Ignore"


def test_the_component_sets_fail_for_what_may_have_it() -> None:
    file = DEPLOY / "kustomize" / "components" / "webhooks-fail-closed" / "policies.yaml"
    patches = list(yaml.safe_load_all(file.read_text()))
    changed = {p["metadata"]["name"]: [webhook["name"] for webhook in p["webhooks"]] for p in patches}
    assert changed == fail_closed()
    assert {webhook["failurePolicy"] for p in patches for webhook in p["webhooks"]} == {"Fail"}


# --- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SETTINGS, ids=relative)
def test_shipped_settings_are_valid(path: Path) -> None:
    found = settings.load(path)
    known = {*admission_gates.SPECS, *controller_host.installed().feature_gates({})}
    known |= set(AgentPlugins.find().gate_specs())
    assert set(found.feature_gates) <= known


def test_webhooks_take_their_certificate_from_the_secret_that_their_role_names() -> None:
    found = settings.load(BASE / "webhooks" / "koordpy.yaml").admission
    assert (found.certificates.mode, found.registers) == ("secret", True)
    [role] = [d for d in documents("Role") if d["metadata"]["name"] == "koordpy-webhooks"]
    assert role["metadata"]["namespace"] == found.certificates.namespace
    assert role["rules"][1]["resourceNames"] == [found.certificates.secret_name]


def test_the_descheduler_has_the_lease_that_its_role_names() -> None:
    found = descheduling_config.load((BASE / "worker" / "descheduler.yaml").read_text())
    [role] = [d for d in documents("Role") if d["metadata"]["name"] == "koordpy-worker"]
    assert role["metadata"]["namespace"] == found.leader_election.resource_namespace
    assert role["rules"][1]["resourceNames"] == [found.leader_election.resource_name]


def test_the_worker_proves_evictions_with_the_extenders_profiles() -> None:
    overlay = yaml.safe_load((DEPLOY / "kustomize" / "overlays" / "full" / "kustomization.yaml").read_text())
    assert "../../components/worker-profiles" in overlay["components"]
    folder = DEPLOY / "kustomize" / "components" / "worker-profiles"
    patch = yaml.safe_load((folder / "deployment.yaml").read_text())
    assert patch["metadata"]["name"] == "koordpy-worker"
    spec = patch["spec"]["template"]["spec"]
    [container], [volume] = spec["containers"], spec["volumes"]
    base = CONTAINERS["koordpy-worker/koordpy"]
    assert container["args"] == [*base["args"], "--scheduler-config", "/etc/koordpy/koordpy-profiles.yaml"]
    named = [source["configMap"]["name"] for source in volume["projected"]["sources"]]
    [own] = [v["configMap"]["name"] for v in PODS["koordpy-worker"]["volumes"] if v["name"] == "config"]
    assert named == [own, "koordpy-scheduler-profiles"]


def test_kube_scheduler_is_configured_as_shipped_but_for_its_lease_and_profiles() -> None:
    ours = yaml.safe_load((BASE / "extender" / "kube-scheduler-config.yaml").read_text())
    shipped = yaml.safe_load((DEPLOY / "scheduler" / "kube-scheduler-config.yaml").read_text())
    [profile] = ours.pop("profiles")
    assert profile == next(p for p in shipped.pop("profiles") if p["schedulerName"] == "koord-scheduler")
    lease = ours.pop("leaderElection")
    assert lease.items() >= shipped.pop("leaderElection").items()
    assert ours == shipped
    [role] = [d for d in documents("Role") if d["metadata"]["name"] == "koordpy-scheduler"]
    assert role["rules"][0]["resourceNames"] == [lease["resourceName"]]


def test_the_extender_has_a_profile_for_what_its_kube_scheduler_schedules() -> None:
    ours = yaml.safe_load((BASE / "extender" / "kube-scheduler-config.yaml").read_text())
    profiles = scheduling_config.load(DEPLOY / "scheduler" / "koordpy-profiles.yaml").profiles
    assert {profile["schedulerName"] for profile in ours["profiles"]} <= {p.scheduler_name for p in profiles}
    found = settings.load(BASE / "extender" / "koordpy.yaml")
    prefix = f"http://{found.extender.bind_address}:{found.extender.port}/extender"
    assert {extender["urlPrefix"] for extender in ours["extenders"]} == {prefix}


# --- files and versions ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=relative)
def test_kustomizations_name_what_is_there(path: Path) -> None:
    found = yaml.safe_load(path.read_text())
    named = [*found.get("resources", []), *found.get("components", [])]
    named += [patch["path"] for patch in found.get("patches", []) if "path" in patch]
    files = [file for generator in found.get("configMapGenerator", []) for file in generator["files"]]
    named += [file.rpartition("=")[2] for file in files]  # NAME=FILE
    for name in named:
        assert (path.parent / name).exists(), name
    beside = {file.name for file in path.parent.glob("*.yaml")} - {path.name}
    if path.parent.name != "scheduler":  # the other file there is an example for the cluster's own scheduler
        assert beside <= set(named)


def test_versions_are_the_projects() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    images = {c["image"] for name, c in CONTAINERS.items() if name.endswith("/koordpy")}
    assert images == {f"koordpy:{version}"}
    for overlay in ("full", "webhooks-only"):
        found = yaml.safe_load((DEPLOY / "kustomize/overlays" / overlay / "kustomization.yaml").read_text())
        assert {"name": "koordpy", "newTag": version} in found["images"]


def test_the_chart_knows_all_feature_gates() -> None:
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    sections = dict(re.findall(r'define "koordpy\.(\w+)Gates" -\}\}\n((?:- \w+\n)+)', text))
    found = {part: set(re.findall(r"- (\w+)", names)) for part, names in sections.items()}
    assert found == {
        "webhook": set(admission_gates.SPECS),
        "worker": set(controller_host.gate_specs(controller_host.installed())),
        "qos": {*qos_gates.KOORDLET, *AgentPlugins.find().gate_specs()},
    }
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = schema["properties"]["featureGates"]["propertyNames"]["enum"]
    assert known == sorted(set().union(*found.values()))


def test_no_file_of_the_chart_is_a_copy_and_none_is_missing() -> None:
    files = [path for path in (CHART / "files").rglob("*") if not path.is_dir() or path.is_symlink()]
    for path in files:
        assert path.is_symlink(), path
        # Links to folders are lost where archives are made of files.
        assert path.resolve().is_file()
        assert path.resolve().is_relative_to(DEPLOY)
    for folder in ("crds", "priorityclasses", "webhooks"):
        linked = {path.name for path in files if path.parent.name == folder}
        assert linked == {path.name for path in (DEPLOY / folder).glob("*.yaml")}
