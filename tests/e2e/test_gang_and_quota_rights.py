"""Gangs and quotas with the rights that the manifests give for them, and with one of them taken away.

koordpy has its own roles and none of kube-scheduler's, as where kube-scheduler runs elsewhere. Without a
right, what needs it says so and nothing else fails; with the right again, it works without a restart.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import yaml

from tests.e2e import taken_rights
from tests.e2e.controlplane.process import free_port
from tests.e2e.installation import Component, Document, Installation
from tests.e2e.test_rights import add_node, pod
from tests.eventually import eventually
from tests.manifests.render import DEPLOY
from tests.manifests.rights import grants_of, refused, unused

pytestmark = pytest.mark.timeout(900)

ACCOUNT = "koordpy-scheduler"
ROLE = "koordpy-gangs-and-quotas"
OWN_ROLES = ("koordpy-extender", "koordpy-reservations", ROLE)
OF_KUBE_SCHEDULER = ("koordpy-scheduler:kube-scheduler", "koordpy-scheduler:volume-scheduler")
GATE = "pre-enqueue.koordpy.dev/Coscheduling"
GROUP = "scheduling.sigs.k8s.io/v1alpha1"
QUOTA = "quota.scheduling.koordinator.sh/"
HIGH = {"priorityClassName": "system-cluster-critical"}


class Stage:
    """The installation with a koordpy that can be started, and a kube-scheduler that calls it."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        port = free_port()
        changes = {
            "schedulerConfig:": f"port: {port}\n  schedulerConfig:",
            "http://127.0.0.1:9877": f"http://127.0.0.1:{port}",
        }
        more = {
            "defaultTimeout: 600s": "enablePreemption: true\n          preemptionJointFit: true",
            "quotaGroupNamespace: koordinator-system": (
                "monitorAllQuotas: true\n          delayEvictTime: 1s\n          revokePodInterval: 1s"
            ),
        }
        self.koordpy = installation.component(
            ACCOUNT, {"koordpy-scheduler-config": changes, "koordpy-scheduler-profiles": more}
        )

    def start(self) -> None:
        """Start koordpy, which may lack rights to become ready."""
        self.koordpy.start("koordpy-scheduler", wait=False)

    def start_kube_scheduler(self) -> None:
        config = self.koordpy.folder / "kube-scheduler-config.yaml"
        self.installation.plane.start_scheduler(yaml.safe_load(config.read_text()))

    @property
    def log(self) -> str:
        return (self.koordpy.folder / "koordpy.log").read_text(errors="replace")

    def without(self, verb: str, *resources: str) -> AbstractContextManager[None]:
        """Take a verb on resources from koordpy's roles; give it back at the end."""
        return taken_rights.without(self.installation, ACCOUNT, verb, *resources, roles=OWN_ROLES)

    def create(self, *documents: Document) -> None:
        self.installation.create(*documents)

    def get(self, *what: str) -> Any:
        return self.installation.get(*what)

    def expect(self, holds: Callable[[], bool]) -> None:
        assert eventually(holds), f"{self.pods()}\n{self.koordpy.logs()}"

    def expect_complaint(self, verb: str, resource: str) -> None:
        """Wait for a line in the log that names the missing right."""
        words = f'cannot {verb} resource "{resource}"'
        assert eventually(lambda: words in self.log), self.koordpy.logs()

    def pods(self) -> dict[str, Document]:
        found = self.get("pods") or {"items": []}
        return {each["metadata"]["name"]: each for each in found["items"]}

    def bound(self, prefix: str) -> int:
        return sum(
            "nodeName" in found["spec"] for name, found in self.pods().items() if name.startswith(prefix)
        )

    def terminating(self, prefix: str) -> int:
        return sum(
            "deletionTimestamp" in found["metadata"]
            for name, found in self.pods().items()
            if name.startswith(prefix)
        )

    def message(self, name: str) -> str:
        conditions = self.pods()[name]["status"].get("conditions", [])
        return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")

    def delete(self, *names: str) -> None:
        """Delete pods as a kubelet does that has stopped them."""
        command = ("delete", "pod", *names, "--grace-period=0", "--force", "--ignore-not-found")
        self.installation.plane.kubectl(*command)

    def clear(self) -> None:
        self.delete("--all")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("installation")
    kustomize = DEPLOY / "kustomize"
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(kustomize / "overlays" / "full", folder.resolve())],
        "components": [os.path.relpath(kustomize / "components" / "gangs-and-quotas", folder.resolve())],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    with Installation(str(folder.resolve()), folder) as made:
        made.plane.kubectl("delete", "clusterrolebinding", *OF_KUBE_SCHEDULER)
        # Nothing is admitted here.
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            made.plane.kubectl("delete", kind, "--all")
        for name in ("n0", "n1"):
            add_node(made, name, cpu="4")
        yield Stage(made)


@pytest.fixture
def it(stage: Stage) -> Iterator[Stage]:
    yield stage
    stage.clear()


def member(name: str, gang: str = "", *, cpu: str = "1", quota: str = "", **spec: Any) -> Document:
    labels = {"pod-group.scheduling.sigs.k8s.io": gang} if gang else {}
    labels |= {f"{QUOTA}name": quota} if quota else {}
    return pod(name, labels=labels, cpu=cpu, schedulerName="koord-scheduler", **spec)


def pod_group(name: str, minimum: int) -> Document:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": GROUP, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": minimum}}


def elastic_quota(name: str, maximum: int, minimum: int, **labels: str) -> Document:
    meta = {
        "name": name,
        "namespace": "koordinator-system",
        "labels": {QUOTA + key.replace("_", "-"): value for key, value in labels.items()},
    }
    spec = {"max": {"cpu": str(maximum)}, "min": {"cpu": str(minimum)}}
    return {"apiVersion": GROUP, "kind": "ElasticQuota", "metadata": meta, "spec": spec}


def is_ready(component: Component) -> bool:
    return component.status("/readyz") == 200


def test_without_its_lists_koordpy_is_not_ready_and_says_why(stage: Stage) -> None:
    with stage.without("create", "elasticquotas"):
        with stage.without("list", "podgroups", "elasticquotas"):
            stage.start()
            for resource in ("podgroups", "elasticquotas"):
                stage.expect_complaint("list", resource)
            assert not is_ready(stage.koordpy)
        stage.expect(lambda: is_ready(stage.koordpy))
        stage.expect_complaint("create", "elasticquotas")
    special = {"koordinator-default-quota", "koordinator-root-quota", "koordinator-system-quota"}

    def created() -> set[str]:
        found = stage.get("elasticquotas", "-n", "koordinator-system") or {"items": []}
        return {each["metadata"]["name"] for each in found["items"]}

    stage.expect(lambda: created() == special)
    stage.start_kube_scheduler()


def test_gates_stay_until_pods_may_be_patched(it: Stage) -> None:
    with it.without("patch", "pods"):
        it.create(pod_group("gated", 2))
        it.create(*(member(f"gated-{n}", "gated", schedulingGates=[{"name": GATE}]) for n in range(2)))
        it.expect_complaint("patch", "pods")
        assert it.bound("gated") == 0
    it.expect(lambda: it.bound("gated") == 2)


def test_gangs_are_bound_without_status_and_once_pods_may_be_bound(it: Stage) -> None:
    with it.without("patch", "podgroups"):
        with it.without("create", "pods/binding"):
            it.create(pod_group("pair", 2), member("pair-0", "pair"), member("pair-1", "pair"))
            it.expect(lambda: 'cannot create resource "pods/binding"' in it.message("pair-0"))
        it.expect(lambda: it.bound("pair") == 2)
        it.expect_complaint("patch", "podgroups")
    it.expect(lambda: it.get("podgroup", "pair").get("status", {}).get("phase") == "Scheduled")


def test_quotas_count_without_status(it: Stage) -> None:
    it.create(elastic_quota("one", 1, 1))
    with it.without("patch", "elasticquotas"):
        it.create(member("one-0", quota="one"))
        it.expect(lambda: it.bound("one") == 1)
        it.create(member("one-1", quota="one"))
        it.expect(lambda: "Insufficient quotas" in it.message("one-1"))
        it.expect_complaint("patch", "elasticquotas")
    used = {"cpu": "1"}

    def status() -> Any:
        return it.get("elasticquota", "one", "-n", "koordinator-system").get("status", {})

    it.expect(lambda: status().get("used") == used)


def test_nothing_is_evicted_for_a_gang_without_the_rights_for_it(it: Stage) -> None:
    it.create(*(member(f"low-{n}", cpu="3") for n in range(2)))
    it.expect(lambda: it.bound("low") == 2)
    gang = [member(f"high-{n}", "high", cpu="3", **HIGH) for n in range(2)]
    with it.without("delete", "pods"), it.without("create", "events"):
        with it.without("patch", "pods/status"):
            it.create(pod_group("high", 2), *gang)
            it.expect_complaint("patch", "pods/status")
            assert it.terminating("low") == 0
        it.expect_complaint("delete", "pods")
        assert it.terminating("low") == 0
    it.expect(lambda: it.terminating("low") == 2)
    it.delete("low-0", "low-1")
    it.expect(lambda: it.bound("high") == 2)


def test_pods_of_an_overused_quota_stay_without_the_right_to_evict(it: Stage) -> None:
    it.create(
        elastic_quota("teams", 4, 4, is_parent="true"),
        elastic_quota("lender", 4, 3, parent="teams"),
        elastic_quota("borrower", 4, 1, parent="teams"),
    )
    it.expect(lambda: it.koordpy.debug("/apis/v1/quotas/borrower") is not None)
    it.create(*(member(f"borrower-{n}", quota="borrower") for n in range(4)))
    it.expect(lambda: it.bound("borrower") == 4)
    with it.without("create", "pods/eviction"):
        it.create(member("lender-0", quota="lender"), member("lender-1", quota="lender"))
        it.expect_complaint("create", "pods/eviction")
        assert it.terminating("borrower") == 0
    it.expect(lambda: it.terminating("borrower") == 2)


def test_no_other_role_is_needed_and_no_right_is_given_in_vain(stage: Stage) -> None:
    documents = [
        found for found in stage.installation.documents if found["metadata"]["name"] not in OF_KUBE_SCHEDULER
    ]
    grants = grants_of(ACCOUNT, documents)
    requests = stage.installation.requests(ACCOUNT)
    assert refused(grants, requests) == []
    idle = {str(grant) for grant in unused([grant for grant in grants if grant.role == ROLE], requests)}
    # The same event about the same pod within six minutes.
    assert idle - {f"{ROLE}: patch events.events.k8s.io"} == set()
