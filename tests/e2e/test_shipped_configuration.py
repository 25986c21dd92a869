"""Koordinator's shipped scheduler configuration, unchanged, beside kube-scheduler: gangs and quotas.

The file is not part of the project; KOORDPY_SAMPLES names the folder of the samples.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koordpy import data
from tests.e2e import gang_workloads
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.serving import Document, Koordpy, add_node, create, nodes_of, pod, register_webhooks
from tests.eventually import eventually

pytestmark = pytest.mark.timeout(600)

SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES") or Path(__file__).parents[3] / "shared" / "samples")
SHIPPED = SAMPLES / "koordinator" / "scheduler-config.yaml"
GANG = "gang.scheduling.koordinator.sh/"
QUOTA = "quota.scheduling.koordinator.sh/"
NODES = ("n0", "n1")
"""Each has 16 CPUs."""


class Cluster:
    """A control plane with koordpy and kube-scheduler."""

    def __init__(self, plane: ControlPlane, koordpy: Koordpy) -> None:
        self.plane, self.koordpy = plane, koordpy

    def create(self, *documents: Document) -> None:
        create(self.plane, *documents)

    def delete(self, *names: str) -> None:
        """Delete pods as a kubelet does that has stopped them."""
        self.plane.kubectl("delete", "pod", *names, "--grace-period=0", "--force", "--wait=false")

    def pods(self) -> dict[str, Document]:
        items = json.loads(self.plane.kubectl("get", "pods", "-o", "json").stdout)["items"]
        return {item["metadata"]["name"]: item for item in items}

    def condition(self, name: str) -> tuple[str, str]:
        """Return the reason and the message of PodScheduled."""
        conditions = self.pods()[name]["status"].get("conditions", [])
        for each in conditions:
            if each["type"] == "PodScheduled":
                return each.get("reason", ""), each.get("message", "")
        return "", ""

    def bound(self, prefix: str) -> int:
        return sum(bool(node) for name, node in nodes_of(self.plane).items() if name.startswith(prefix))

    def expect_bound(self, prefix: str, count: int) -> None:
        assert eventually(lambda: self.bound(prefix) == count), self.complaint()

    def expect_refused(self, name: str, why: str) -> None:
        assert eventually(lambda: why in self.condition(name)[1]), self.complaint()

    def status(self, kind: str, name: str, namespace: str = "default") -> Document:
        text = self.plane.kubectl("get", kind, name, "-n", namespace, "-o", "json").stdout
        found: Document = json.loads(text).get("status", {})
        return found

    def complaint(self) -> str:
        found = [
            (name, each["spec"].get("nodeName", ""), self.condition(name))
            for name, each in self.pods().items()
        ]
        return "\n".join([*map(str, found), self.koordpy.process.log_tail(), self.plane.logs()])

    def clear(self) -> None:
        self.plane.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
        left = [f"pod/{name}" for name in self.pods()]
        if left:  # those of Jobs, whose controller would let them go
            self.plane.kubectl("patch", *left, "--type=merge", "--patch", '{"metadata":{"finalizers":null}}')
        assert eventually(lambda: not self.pods())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not SHIPPED.is_file():
        pytest.skip(f"{SHIPPED} is not there; KOORDPY_SAMPLES names its folder")
    folder = tmp_path_factory.mktemp("koordpy")
    with ControlPlane() as plane:
        plane.install_crds()
        plane.kubectl("create", "-f", str(data.deploy("priorityclasses")))
        for name in NODES:
            add_node(plane, name, "1")
        register_webhooks(plane)
        koordpy = Koordpy(plane, folder, webhooks=True, schedulerConfig=str(SHIPPED))
        try:
            plane.start_scheduler(koordpy.entry("kube-scheduler-config.yaml"))
            yield Cluster(plane, koordpy)
        finally:
            plane.stop_scheduler()
            koordpy.process.stop()


@pytest.fixture
def it(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    cluster.clear()


def pod_group(name: str, minimum: int) -> Document:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum, "scheduleTimeoutSeconds": 300},
    }


def quota(name: str, cpu: int, minimum: int, **labels: str) -> Document:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": "koordinator-system",
            "labels": {QUOTA + key.replace("_", "-"): value for key, value in labels.items()},
        },
        "spec": {
            "max": {"cpu": str(cpu), "memory": "64Gi"},
            "min": {"cpu": str(minimum), "memory": f"{minimum}Gi"},
        },
    }


def koord_pod(
    name: str,
    cpu: str = "1",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Document:
    made = pod(name, cpu, schedulerName="koord-scheduler", **spec)
    made["metadata"]["labels"] |= labels or {}
    made["metadata"]["annotations"] = annotations or {}
    return made


def grouped(name: str, group: str, cpu: str = "1") -> Document:
    return koord_pod(name, cpu, labels={"pod-group.scheduling.sigs.k8s.io": group})


def annotated(name: str, gang: str, minimum: int, cpu: str = "1") -> Document:
    notes = {f"{GANG}name": gang, f"{GANG}min-available": str(minimum)}
    return koord_pod(name, cpu, annotations=notes)


def of_quota(name: str, quota_name: str, cpu: str = "1", **spec: Any) -> Document:
    return koord_pod(name, cpu, labels={f"{QUOTA}name": quota_name}, **spec)


def test_gangs_wait_for_their_pods_and_are_then_bound_whole(it: Cluster) -> None:
    it.create(pod_group("train", 3), *(grouped(f"train-{n}", "train") for n in range(2)))
    it.create(*(annotated(f"mpi-{n}", "mpi", 3) for n in range(2)))
    for name in ("train-0", "mpi-1"):
        it.expect_refused(name, "child pod not collect enough")
        assert it.condition(name)[0] == "NotReadyForScheduling"
        assert it.pods()[name]["spec"]["schedulingGates"]
    it.create(grouped("train-2", "train"), annotated("mpi-2", "mpi", 3))
    it.expect_bound("train-", 3)
    it.expect_bound("mpi-", 3)
    assert eventually(lambda: it.status("podgroup", "train").get("phase") == "Scheduled")
    assert it.status("podgroup", "train")["scheduled"] == 3
    # It was whole once: a pod that takes the place of another one waits for nobody.
    it.delete("mpi-1")
    it.create(annotated("mpi-again", "mpi", 3))
    it.expect_bound("mpi-again", 1)


def test_gangs_of_workloads_are_bound_whole_whatever_makes_their_pods(it: Cluster) -> None:
    """The last pod of each comes late. The parts of the JobSet are gangs of a group, with a minimum each."""

    def template(gang: str, minimum: int, *group: str) -> gang_workloads.Template:
        def made(name: str) -> Document:
            found = annotated(name, gang, minimum)
            if group:
                found["metadata"]["annotations"][f"{GANG}groups"] = json.dumps(group)
            return found

        return made

    group = ("default/driver", "default/ranks")
    roles = {"driver": (template("driver", 1, *group), 1), "ranks": (template("ranks", 2, *group), 2)}
    workloads = {
        "job": gang_workloads.indexed_job(template("job", 3), "job", 3),
        "jobset": gang_workloads.job_set(roles, "jobset"),
        "ray": gang_workloads.ray_cluster(template("ray", 3), "ray", 2),
        "lws": gang_workloads.leader_worker_set(template("lws", 3), "lws", 3),
    }
    first = [pod for pods in workloads.values() for pod in pods[:-1]]
    it.create(*first)
    for made in first:
        it.expect_refused(made["metadata"]["name"], "basic check")
    assert it.bound("") == 0
    it.create(*(pods[-1] for pods in workloads.values()))
    for name, pods in workloads.items():
        it.expect_bound(f"{name}-", len(pods))
    # What a controller makes in place of a pod that failed is alone, and must not wait for the others.
    [again] = gang_workloads.indexed_job(template("job", 3), "job", 1)
    again["metadata"]["name"] = "job-0-again"
    it.create(again)
    it.expect_bound("job-0-again", 1)


def test_a_gang_without_room_is_refused_whole_until_there_is_room(it: Cluster) -> None:
    it.create(koord_pod("large", "12"))
    it.expect_bound("large", 1)
    it.create(*(annotated(f"wide-{n}", "wide", 4, "7") for n in range(4)))
    # 4 of 7 CPUs need 28: two fit on one node, none or one on the other.
    for n in range(4):
        it.expect_refused(f"wide-{n}", "of 4 pods of default/wide fit")
    assert it.bound("wide-") == 0
    it.delete("large")
    it.expect_bound("wide-", 4)


def test_quotas_refuse_pods_and_let_them_go_when_there_is_room(it: Cluster) -> None:
    it.create(
        quota("teams", 6, 6, is_parent="true"),
        quota("team-a", 4, 2, parent="teams"),
        quota("team-b", 6, 4, parent="teams"),
    )
    # Webhook and scheduler learn of quotas by a watch; a pod of an unknown quota is in the default one.
    assert eventually(lambda: it.koordpy.get("/apis/v1/quotas/team-b").is_success)
    it.create(*(of_quota(f"a-{n}", "team-a") for n in range(4)))
    it.expect_bound("a-", 4)
    it.create(of_quota("a-late", "team-a"))
    it.expect_refused("a-late", "Insufficient quotas, quotaName: team-a")
    used = {"cpu": "4", "memory": "256Mi"}
    assert eventually(lambda: it.status("elasticquota", "team-a", "koordinator-system").get("used") == used)
    it.delete("a-0")
    it.expect_bound("a-late", 1)


def test_a_more_important_pod_of_a_quota_takes_the_place_of_another_one_and_is_not_tried_without_end(
    it: Cluster,
) -> None:
    it.create(quota("small", 2, 2))
    assert eventually(lambda: it.koordpy.get("/apis/v1/quotas/small").is_success)
    low = [of_quota(f"low-{n}", "small") for n in range(2)]
    it.create(*low)
    it.expect_bound("low-", 2)
    it.create(of_quota("high", "small", priorityClassName="koord-prod"))

    def terminating() -> list[str]:
        return [name for name, each in it.pods().items() if "deletionTimestamp" in each["metadata"]]

    assert eventually(lambda: len(terminating()) == 1), it.complaint()
    [victim] = terminating()
    [reason] = [
        each["reason"]
        for each in it.pods()[victim]["status"]["conditions"]
        if each["type"] == "DisruptionTarget"
    ]
    assert reason == "PreemptionByScheduler"
    node = it.pods()[victim]["spec"]["nodeName"]
    assert eventually(lambda: it.pods()["high"]["status"].get("nominatedNodeName") == node), it.complaint()
    # Each of these is a reason to try the pod again. A nomination that kube-scheduler cleared at each attempt
    # would be another one, and the pod would be tried some hundred times until its victim ends.
    for n in range(4):
        it.create(koord_pod(f"other-{n}", "100m"))
        it.expect_bound(f"other-{n}", 1)
        it.delete(f"other-{n}")
    assert it.koordpy.history("high")["cycles"] < 60, it.complaint()
    it.delete(victim)
    it.expect_bound("high", 1)
    assert terminating() == []
