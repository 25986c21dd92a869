"""Gangs beside the real kube-scheduler that have no room at first, and get it.

Preemption is the example of Koordinator's manual, with its defaults: two nodes are taken by a pod of lower
priority each, and a gang needs one place on each of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.serving import Document, Koordpy, add_node, create, nodes_of, pod
from tests.eventually import eventually

GROUP = "pod-group.scheduling.sigs.k8s.io"
QUOTA = "quota.scheduling.koordinator.sh/name"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as made:
        made.install_crds()
        create(made, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}})
        for name in ("n0", "n1"):
            add_node(made, name, "1")
        for name, value in (("low", 1000), ("high", 1_000_000)):
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            create(made, {**kind, "metadata": {"name": name}, "value": value})
        yield made


def serving(plane: ControlPlane, folder: Path, *plugins: str, **args: Any) -> Koordpy:
    file = folder / "profiles.yaml"
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in plugins]}},
        "pluginConfig": [{"name": "Coscheduling", "args": args}],
    }
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file.write_text(yaml.safe_dump({**document, "profiles": [profile]}))
    return Koordpy(plane, folder, schedulerConfig=str(file))


def gang(name: str, members: int, cpu: str, labels: dict[str, str], **spec: Any) -> list[Document]:
    found: list[Document] = [
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"minMember": members, "scheduleTimeoutSeconds": 300},
        }
    ]
    for number in range(members):
        made = pod(f"{name}-{number}", cpu, **spec)
        made["metadata"]["labels"] |= {GROUP: name, **labels}
        found.append(made)
    return found


def create_known(plane: ControlPlane, koordpy: Koordpy, group: Document, *pods: Document) -> None:
    """Create a gang, its pods once koordpy knows their PodGroup: kinds are watched apart from each other."""
    create(plane, group)
    meta = group["metadata"]
    path = f"/apis/v1/plugins/Coscheduling/gang/{meta['namespace']}/{meta['name']}"
    assert eventually(lambda: koordpy.get(path).is_success)
    create(plane, *pods)


def are_bound(plane: ControlPlane, *names: str) -> bool:
    nodes = nodes_of(plane)
    return set(nodes) == set(names) and all(nodes.values())


def take_both_nodes(plane: ControlPlane) -> None:
    """Fill the nodes with a less important pod each."""
    low = {"priorityClassName": "low", "terminationGracePeriodSeconds": 0}
    create(plane, *(pod(f"low-{number}", "15", **low) for number in range(2)))
    assert eventually(lambda: are_bound(plane, "low-0", "low-1"))


def test_a_gang_takes_the_places_of_less_important_pods(plane: ControlPlane, tmp_path: Path) -> None:
    koordpy = serving(plane, tmp_path, "Coscheduling", enablePreemption=True)
    try:
        plane.start_scheduler(koordpy.entry("kube-scheduler-config.yaml"))
        take_both_nodes(plane)
        create_known(plane, koordpy, *gang("job", 2, "12", {}, priorityClassName="high"))
        assert eventually(lambda: are_bound(plane, "job-0", "job-1"))
        assert set(nodes_of(plane).values()) == {"n0", "n1"}
    finally:
        plane.stop_scheduler()
        koordpy.process.stop()


def test_a_gang_takes_places_though_its_pod_group_comes_last(plane: ControlPlane, tmp_path: Path) -> None:
    """kube-scheduler finds no node for the pods, calls no filter, and does not try them again by itself."""
    koordpy = serving(plane, tmp_path, "Coscheduling", enablePreemption=True)
    try:
        plane.start_scheduler(koordpy.entry("kube-scheduler-config.yaml"))
        take_both_nodes(plane)
        group, *pods = gang("job", 2, "12", {}, priorityClassName="high")
        create(plane, *pods)

        def are_told() -> bool:
            conditions = plane.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.conditions}").stdout
            return conditions.count("Insufficient cpu") == 2

        assert eventually(are_told)
        create(plane, group)
        assert eventually(lambda: are_bound(plane, "job-0", "job-1"))
    finally:
        plane.stop_scheduler()
        koordpy.process.stop()


def test_a_gang_is_bound_once_its_quota_has_room_for_all(plane: ControlPlane, tmp_path: Path) -> None:
    def quota(cpu: str) -> Document:
        return {"min": {"cpu": "0"}, "max": {"cpu": cpu}}

    koordpy = serving(plane, tmp_path, "Coscheduling", "ElasticQuota")
    try:
        plane.start_scheduler(koordpy.entry("kube-scheduler-config.yaml"))
        kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
        meta = {"name": "team", "namespace": "default"}
        create(plane, {**kind, "metadata": meta, "spec": quota("2")})
        assert eventually(lambda: koordpy.get("/apis/v1/quotas/team").is_success)
        create_known(plane, koordpy, *gang("job", 3, "1", {QUOTA: "team"}))

        def is_told() -> bool:
            conditions = plane.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.conditions}").stdout
            return "2 of 3 pods of default/job fit" in conditions

        assert eventually(is_told)
        assert not any(nodes_of(plane).values())
        patch = yaml.safe_dump({"spec": quota("3")})
        plane.kubectl("patch", "elasticquota/team", "--type=merge", "--patch", patch)
        assert eventually(lambda: are_bound(plane, "job-0", "job-1", "job-2"))
    finally:
        plane.stop_scheduler()
        koordpy.process.stop()
