"""Gangs of Kubernetes' own Workload API beside kube-scheduler: scheduled by koordpy, or left alone.

kube-apiserver serves the API behind its feature gate. kube-scheduler gates gangs only in the second story.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.serving import Document, Koordpy, add_node, create, nodes_of, pod
from tests.eventually import eventually

API = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha1=true")
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
PROFILES = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
        }
    ],
}


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(api_server_flags=API) as made:
        made.install_crds()
        create(made, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}})
        for name in ("n0", "n1"):
            add_node(made, name, "1")
        yield made


def serving(plane: ControlPlane, folder: Path) -> Koordpy:
    profiles = folder / "profiles.yaml"
    profiles.write_text(yaml.safe_dump(PROFILES))
    return Koordpy(plane, folder, {"WorkloadRef": True}, schedulerConfig=str(profiles))


def workload(name: str, minimum: int) -> Document:
    groups = [
        {"name": "workers", "policy": {"gang": {"minCount": minimum}}},
        {"name": "tools", "policy": {"basic": {}}},
    ]
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"podGroups": groups},
    }


def member(name: str, of: str, group: str = "workers", **more: Any) -> Document:
    return pod(name, workloadRef={"name": of, "podGroup": group}, **more)


def gang(koordpy: Koordpy, name: str) -> Document | None:
    """Return what koordpy knows of a gang, None if it knows none of that name."""
    answer = koordpy.get(f"/apis/v1/plugins/Coscheduling/gang/default/{name}")
    found: Document | None = answer.json() if answer.is_success else None
    return found


def bound(plane: ControlPlane) -> set[str]:
    return {name for name, node in nodes_of(plane).items() if node}


def test_koordpy_schedules_the_gangs_of_workloads_whole(plane: ControlPlane, tmp_path: Path) -> None:
    koordpy = serving(plane, tmp_path)
    try:
        plane.start_scheduler(koordpy.entry("kube-scheduler-config.yaml"))
        create(plane, workload("small", 3), workload("large", 3))
        create(plane, member("a", "small"), member("b", "small"))
        create(plane, *(member(f"large-{index}", "large", cpu="12") for index in range(3)))
        create(plane, member("early", "late"), member("tool", "small", "tools"), pod("plain"))
        assert eventually(lambda: bound(plane) == {"tool", "plain"})
        assert gang(koordpy, "small:workers") is not None
        create(plane, member("c", "small"), workload("late", 1))
        assert eventually(lambda: bound(plane) == {"tool", "plain", "a", "b", "c", "early"})
        plane.kubectl("delete", "pod", "b", "--grace-period=0", "--force")
        create(plane, member("replacement", "small"))
        assert eventually(lambda: bound(plane) == {"tool", "plain", "a", "c", "replacement", "early"})
    finally:
        plane.stop_scheduler()
        koordpy.process.stop()


def test_gangs_that_kube_scheduler_gates_are_left_to_it(plane: ControlPlane, tmp_path: Path) -> None:
    create(plane, kube_scheduler_pod())
    koordpy = serving(plane, tmp_path)
    try:
        plane.start_scheduler(koordpy.entry("kube-scheduler-config.yaml"), GATES)
        create(plane, workload("small", 3))
        labelled = member("b", "small")
        labelled["metadata"]["annotations"] = {
            "gang.scheduling.koordinator.sh/name": "own",
            "gang.scheduling.koordinator.sh/min-available": "5",
        }
        create(plane, member("a", "small"), labelled, pod("plain"))
        assert eventually(lambda: bound(plane) == {"plain"})
        assert gang(koordpy, "small:workers") is None
        assert gang(koordpy, "own") is None
        create(plane, member("c", "small"))
        assert eventually(lambda: bound(plane) == {"plain", "a", "b", "c"})
        assert "are left to kube-scheduler" in koordpy.process.log_tail(1000)
        told = koordpy.run("doctor", "--config", str(koordpy.config), "--parts", "extender")
        assert "kube-scheduler-n0: gates gangs itself: koordpy leaves pods" in told.stdout
    finally:
        plane.stop_scheduler()
        koordpy.process.stop()


def kube_scheduler_pod() -> Document:
    """Return a pod as kubelet shows the static pod of kube-scheduler."""
    container = {
        "name": "kube-scheduler",
        "image": "registry.k8s.io/kube-scheduler:v1.35.3",
        "command": ["kube-scheduler", "--config=/etc/kubernetes/scheduler.yaml", GATES],
    }
    labels = {"component": "kube-scheduler", "tier": "control-plane"}
    metadata = {"name": "kube-scheduler-n0", "namespace": "kube-system", "labels": labels}
    spec = {"nodeName": "n0", "hostNetwork": True, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
