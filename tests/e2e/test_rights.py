"""Every component runs with the shipped roles and nothing else, and needs all of them.

All components of an overlay do their work on a kube-apiserver with RBAC; what its audit log saw of them is
compared with the rules, one verb on one resource at a time.
"""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests import loopback
from tests.e2e.controlplane.certificates import Authority
from tests.e2e.controlplane.process import free_port
from tests.e2e.installation import NAMESPACE, Component, Document, Installation
from tests.eventually import eventually
from tests.integration.worker.stage import NodeFiles
from tests.manifests.cert_manager import CERT_MANAGER
from tests.manifests.rights import grants_of, refused, unused

pytestmark = pytest.mark.timeout(600)

NOT_SEEN = {
    "koordpy-worker": {
        # The same event about the same object within six minutes; an evicted pod is not evicted again.
        "koordpy-worker: patch events.events.k8s.io",
        # A job whose time to live is over, a Reservation of a job that failed, the policy Delete; objects
        # that the worker's view does not show yet or any more.
        "koordpy-worker: delete podmigrationjobs.scheduling.koordinator.sh",
        "koordpy-worker: get podmigrationjobs.scheduling.koordinator.sh",
        "koordpy-worker: delete reservations.scheduling.koordinator.sh",
        "koordpy-worker: get reservations.scheduling.koordinator.sh",
        "koordpy-worker: delete pods",
        "koordpy-worker: get pods",
        # A Reservation that the job names, with labels but without the one that orders it.
        "koordpy-worker: patch reservations.scheduling.koordinator.sh",
        # Workloads of OpenKruise, which is not installed here.
        "koordpy-worker: watch clonesets.apps.kruise.io",
        "koordpy-worker: watch statefulsets.apps.kruise.io",
        # A caller of the debug API with a token.
        "koordpy-worker: create subjectaccessreviews.authorization.k8s.io",
        "koordpy-worker: create tokenreviews.authentication.k8s.io",
        # Nodes that are deleted, policies and thresholds that change later, zones with resources, and the
        # same event within six minutes.
        "koordpy-worker-slo: delete nodemetrics.slo.koordinator.sh",
        "koordpy-worker-slo: delete nodeslos.slo.koordinator.sh",
        "koordpy-worker-slo: patch nodemetrics.slo.koordinator.sh",
        "koordpy-worker-slo: patch nodeslos.slo.koordinator.sh",
        "koordpy-worker-slo: get noderesourcetopologies.topology.node.k8s.io",
        "koordpy-worker-slo: patch noderesourcetopologies.topology.node.k8s.io",
        "koordpy-worker-slo: patch events.events.k8s.io",
    },
    "koordpy-qos-agent": {
        # A caller of the debug API with a token.
        "koordpy-qos-agent: create subjectaccessreviews.authorization.k8s.io",
        "koordpy-qos-agent: create tokenreviews.authentication.k8s.io",
        # The first report of usage, after half a minute; a node that has no topology yet.
        "koordpy-qos-agent: update nodemetrics/status.slo.koordinator.sh",
        "koordpy-qos-agent: create noderesourcetopologies.topology.node.k8s.io",
    },
    "koordpy-scheduler": {
        # A Reservation that ended a day ago; a write after another client's; what plugins annotate.
        "koordpy-reservations: delete reservations.scheduling.koordinator.sh",
        "koordpy-reservations: get reservations.scheduling.koordinator.sh",
        "koordpy-reservations: patch reservations.scheduling.koordinator.sh",
        # Where networkTopologyManager is on.
        "koordpy-extender: list clusternetworktopologies.scheduling.koordinator.sh",
        "koordpy-extender: patch clusternetworktopologies/status.scheduling.koordinator.sh",
        "koordpy-extender: watch clusternetworktopologies.scheduling.koordinator.sh",
        # The same event about the same Reservation within six minutes.
        "koordpy-reservations: patch events.events.k8s.io",
    },
}
"""Rights that the story makes no use of, by account; for each the case in which it is used."""

OF_KUBE_SCHEDULER = "koordpy-scheduler"
"""The Role of kube-scheduler, which shares the extender's service account."""

ACCOUNTS = ("koordpy-webhooks", "koordpy-scheduler", "koordpy-worker", "koordpy-qos-agent")
BATCH_CPU = "kubernetes.io/batch-cpu"
QUOTA_NAME = "quota.scheduling.koordinator.sh/name"
SECRET = "koordinator-webhook-certs"


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation whose components have done all that they do."""
    with Installation("all-gates", tmp_path_factory.mktemp("installation")) as made:
        admit(made)
        schedule(made)
        rebalance(made)
        enforce(made)
        made.stop()
        yield made


@pytest.mark.parametrize("account", ACCOUNTS)
def test_nothing_is_refused(installation: Installation, account: str) -> None:
    requests = installation.requests(account)
    assert requests
    assert [request for request, allowed in requests.items() if not allowed] == []


@pytest.mark.parametrize("account", ACCOUNTS)
def test_koordpy_needs_no_role_but_its_own(installation: Installation, account: str) -> None:
    grants = [g for g in grants_of(account, installation.documents) if g.role != OF_KUBE_SCHEDULER]
    assert refused(grants, installation.requests(account)) == []


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_right_is_given_in_vain(installation: Installation, account: str) -> None:
    grants = [g for g in grants_of(account, installation.documents) if g.role != OF_KUBE_SCHEDULER]
    idle = {str(grant) for grant in unused(grants, installation.requests(account))}
    assert idle - NOT_SEEN.get(account, set()) == set()


def test_kube_scheduler_needs_the_lease_that_its_role_is_about(installation: Installation) -> None:
    account = "koordpy-scheduler"
    requests = installation.requests(account, "kube-scheduler/")
    assert [request for request, allowed in requests.items() if not allowed] == []
    grants = [
        g for g in grants_of("koordpy-scheduler", installation.documents) if g.role == OF_KUBE_SCHEDULER
    ]
    assert len(grants) == 2
    assert unused(grants, requests) == []


def expect(holds: Callable[[], bool], component: Component) -> None:
    """Wait until something has happened; fail with the component's logs."""
    assert eventually(holds), component.logs()


def test_with_cert_manager_no_secret_is_asked_for(tmp_path: Path) -> None:
    with Installation("cert-manager", tmp_path, CERT_MANAGER) as installation:
        port = free_port()
        here = f"bindAddress: 127.0.0.1\n  port: {port}\n  certificates:\n    host: 127.0.0.1"
        changes = {"/var/run/koordpy/certs": "{folder}/tls", "certificates:": here}
        webhooks = installation.component("koordpy-webhooks", {"koordpy-webhooks-config": changes})
        # What cert-manager puts into the Secret that is mounted, and its injector into the configurations.
        authority = Authority()
        authority.issue(webhooks.folder / "tls", "127.0.0.1")
        (webhooks.folder / "tls" / "ca.crt").write_bytes(authority.pem)
        inject(installation, base64.b64encode(authority.pem).decode())
        webhooks.start("koordpy-webhooks")
        installation.create(pod("admitted"))
        requests = installation.requests("koordpy-webhooks")
        assert [request for request, allowed in requests.items() if not allowed] == []
        assert not [request for request in requests if request.resource == "secrets"]
        grants = grants_of("koordpy-webhooks", installation.documents)
        assert refused(grants, requests) == []
        assert unused(grants, requests) == []


def inject(installation: Installation, bundle: str) -> None:
    """Write a caBundle into every webhook that is registered."""
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        for found in installation.get(kind)["items"]:
            patch = [
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
                for index in range(len(found["webhooks"]))
            ]
            name = found["metadata"]["name"]
            installation.plane.kubectl("patch", kind, name, "--type=json", "--patch", json.dumps(patch))


# --- the story -------------------------------------------------------------------------------------


def admit(installation: Installation) -> None:
    """Two replicas of the webhooks share a certificate, register, mend it when it is broken, admit pods."""
    replicas = []
    for _ in range(2):
        # No kube-proxy runs here: kube-apiserver calls by URL.
        here = f"bindAddress: 127.0.0.1\n  port: {free_port()}\n  certificates:\n    host: 127.0.0.1"
        changes = {"/var/run/koordpy": "{folder}", "certificates:": here}
        replica = installation.component(
            "koordpy-webhooks", {"koordpy-webhooks-config": changes, "koordpy-scheduler-profiles": {}}
        )
        replica.start("koordpy-webhooks")
        replicas.append(replica)
    spoil_certificate(installation, replicas[-1])
    installation.create(
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"max": {"cpu": "10", "memory": "20Gi"}, "min": {"cpu": "1", "memory": "1Gi"}},
        }
    )
    creation = json.dumps(pod("admitted", labels={QUOTA_NAME: "team"}))

    def is_admitted() -> bool:
        # The webhooks learn of the quota by a watch.
        done = installation.plane.kubectl("create", "-f", "-", stdin=creation, check=False)
        return done.returncode == 0

    expect(is_admitted, replicas[-1])


def spoil_certificate(installation: Installation, replica: Component) -> None:
    """Empty the certificate in the Secret; it is made again."""
    patch = json.dumps({"data": {"cert.pem": "", "tls.crt": ""}})
    installation.plane.kubectl("patch", "secret", SECRET, "-n", NAMESPACE, "--type=merge", "--patch", patch)
    expect(lambda: installation.get("secret", SECRET, "-n", NAMESPACE)["data"]["cert.pem"] != "", replica)


def schedule(installation: Installation) -> None:
    """kube-scheduler leads by its lease and binds a pod through the extender."""
    for name in ("hot", "idle"):
        add_node(installation, name)
    scheduler, port = installation.scheduler()
    installation.create(pod("scheduled", schedulerName="koord-scheduler"))
    expect(lambda: "nodeName" in installation.get("pod", "scheduled")["spec"], scheduler)
    # A bind of a pod that the watch has not shown: it is looked up.
    ghost = {"PodName": "ghost", "PodNamespace": "default", "PodUID": "1", "Node": "idle"}
    answer = loopback.post(f"http://127.0.0.1:{port}/extender/bind", json=ghost)
    assert "ghost" in answer.json()["Error"]
    reserve(installation, scheduler)


def reserve(installation: Installation, scheduler: Component) -> None:
    """A Reservation is placed and keeps a pod off; another one is used up by its owner."""
    installation.create(reservation("all", "3500m"), reservation("some", "1"), reservation("most", "3"))

    def phase(name: str) -> str:
        status = installation.get("reservation", name).get("status", {})
        return str(status.get("phase"))

    expect(lambda: [phase("all"), phase("some"), phase("most")].count("Available") >= 2, scheduler)
    installation.create(pod("kept-off", cpu="3", schedulerName="koord-scheduler"))
    expect(lambda: bool(installation.get("pod", "kept-off")["status"].get("conditions")), scheduler)
    installation.plane.kubectl("delete", "reservation", "all", "most")
    expect(lambda: "nodeName" in installation.get("pod", "kept-off")["spec"], scheduler)
    expect(lambda: phase("some") == "Available", scheduler)
    installation.create(pod("owner", labels={"app": "some"}, schedulerName="koord-scheduler"))
    expect(lambda: phase("some") == "Succeeded", scheduler)


def rebalance(installation: Installation) -> None:
    """The descheduler migrates a pod of a hot node, the profile controller changes one that waits."""
    add_node(installation, "cool")
    owner = replica_set(installation, "web", 4)
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for index in range(4):
        web = pod(f"web-{index}", labels={"app": "web"}, nodeName="hot", ownerReferences=[owner])
        web["spec"]["schedulerName"] = "koord-scheduler"
        installation.create(web)
        installation.write_status(f"pod/web-{index}", running)
    installation.create(pod("waiting", labels={"app": "waiting"}, schedulerName="nobody"))
    worker = installation.component(
        "koordpy-worker",
        {
            "koordpy-worker-config": {"deschedulingInterval: 60s": "deschedulingInterval: 200ms"},
            "koordpy-scheduler-profiles": {},
        },
    )
    worker.start("koordpy-worker")
    used = [
        {"namespace": "default", "name": f"web-{index}", "podUsage": {"resources": {"cpu": "900m"}}}
        for index in range(4)
    ]
    report_usage(installation, "hot", used)
    for name in ("idle", "cool"):
        report_usage(installation, name, [])
    installation.create(
        {
            "apiVersion": "config.koordinator.sh/v1alpha1",
            "kind": "ClusterColocationProfile",
            "metadata": {"name": "again", "labels": {"config.koordinator.sh/controller-managed": "true"}},
            "spec": {"selector": {"matchLabels": {"app": "waiting"}}, "labels": {"applied": "yes"}},
        }
    )
    expect(lambda: installation.get("pod", "waiting")["metadata"]["labels"].get("applied") == "yes", worker)
    migrate(installation, worker)


def migrate(installation: Installation, worker: Component) -> None:
    """The evicted pod comes back in the place that its Reservation kept, and the job ends."""

    def evicted() -> list[str]:
        pods = installation.get("pod", "-l", "app=web")["items"]
        return [web["metadata"]["name"] for web in pods if "deletionTimestamp" in web["metadata"]]

    expect(lambda: bool(evicted()), worker)
    gone = evicted()[0]
    # As the kubelet does when the containers have stopped.
    installation.plane.kubectl("delete", "pod", gone, "--grace-period=0", "--force")
    jobs = installation.get("podmigrationjob")["items"]
    [job] = [job for job in jobs if job["spec"]["podRef"]["name"] == gone]
    again = pod("web-again", labels={"app": "web"}, schedulerName="koord-scheduler")
    installation.create(
        again | {"metadata": again["metadata"] | {"ownerReferences": [owner_reference(installation, "web")]}}
    )
    expect(lambda: "nodeName" in installation.get("pod", "web-again")["spec"], worker)
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    installation.write_status("pod/web-again", running)
    name = job["metadata"]["name"]
    expect(lambda: installation.get("podmigrationjob", name)["status"].get("phase") == "Succeeded", worker)


def enforce(installation: Installation) -> None:
    """The worker renders the node's strategies, by which the QoS agent suppresses best-effort pods."""
    files = NodeFiles(installation.folder / "node", 2)
    add_node(installation, "colocated", cpu="8")
    installation.create(
        {
            "apiVersion": "topology.node.k8s.io/v1alpha1",
            "kind": "NodeResourceTopology",
            "metadata": {"name": "colocated"},
            "topologyPolicies": ["None"],
            "zones": [],
        },
        pod("best-effort", nodeName="colocated"),
    )
    roots = "\n  ".join(f"{name}: {path}" for name, path in files.settings.items())
    files_of_node = {"cgroupRoot: /host/sys/fs/cgroup": roots}
    agent = installation.component("koordpy-qos-agent", {"koordpy-qos-agent-config": files_of_node})
    agent.start("koordpy-qos-agent", "--node-name=colocated")
    section = {"enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset"}
    data = {
        "colocation-config": json.dumps({"enable": True}),
        "resource-threshold-config": json.dumps({"clusterStrategy": section}),
    }
    installation.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
            "data": data,
        }
    )
    expect(lambda: files.cpus() != "0-7", agent)
    of_node = ("noderesourcetopologies", "colocated")
    expect(lambda: bool(installation.get(*of_node)["zones"]), agent)
    report_usage(installation, "colocated", [])
    expect(lambda: BATCH_CPU in installation.get("node", "colocated")["status"]["allocatable"], agent)
    plant(installation, agent)


def plant(installation: Installation, component: Component) -> None:
    """The worker makes the root quota of a tree for the nodes of a profile, and follows the profile."""
    meta = {"name": "all", "namespace": "default"}
    api = "quota.koordinator.sh/v1alpha1"
    spec = {"quotaName": "root-of-all", "nodeSelector": {}}
    installation.create({"apiVersion": api, "kind": "ElasticQuotaProfile", "metadata": meta, "spec": spec})
    expect(lambda: installation.get("elasticquota", "root-of-all") is not None, component)
    patch = json.dumps({"spec": {"quotaLabels": {"team": "a"}}})
    installation.plane.kubectl("patch", "elasticquotaprofile", "all", "--type=merge", "--patch", patch)

    def follows() -> bool:
        return installation.get("elasticquota", "root-of-all")["metadata"]["labels"].get("team") == "a"

    expect(follows, component)


# --- objects ---------------------------------------------------------------------------------------


def pod(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    ownerReferences: list[Document] | None = None,  # noqa: N803  (the field's name)
    cpu: str = "100m",
    **spec: Any,
) -> Document:
    """Return a pod with one container."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    meta = {"name": name, "namespace": "default", "labels": labels or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta | ({"ownerReferences": ownerReferences} if ownerReferences else {}),
        "spec": {"containers": [container], **spec},
    }


def replica_set(installation: Installation, name: str, replicas: int) -> Document:
    """Create a ReplicaSet whose pods nobody creates; return the reference to it as an owner."""
    template = pod(name, labels={"app": name})
    installation.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
            },
        }
    )
    return owner_reference(installation, name)


def owner_reference(installation: Installation, name: str) -> Document:
    uid = installation.get("replicaset", name)["metadata"]["uid"]
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}


def reservation(name: str, cpu: str) -> Document:
    """Return a Reservation for pods with the label `app: NAME`."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"schedulerName": "koord-scheduler", "containers": [container]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
        },
    }


def add_node(installation: Installation, name: str, cpu: str = "4") -> None:
    capacity = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
    condition = {"type": "Ready", "status": "True", "reason": "test"}
    installation.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [condition]}
    installation.write_status(f"node/{name}", status)


def report_usage(installation: Installation, node: str, pods: list[Document]) -> None:
    """Report what a node's pods use, in the NodeMetric that the worker has created for the node."""
    assert eventually(lambda: installation.get("nodemetric", node) is not None)
    status = {
        "updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nodeMetric": {"nodeUsage": {}, "systemUsage": {}},
        "podsMetric": pods,
    }
    installation.write_status(f"nodemetric/{node}", status)
