from typing import Any

import pytest

from koordpy.api.core import Deployment, Pod, ReplicaSet, ReplicationController, StatefulSet
from koordpy.api.kruise import AdvancedStatefulSet, CloneSet
from koordpy.api.meta import KubeObject, OwnerReference
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit.controller_finder import ControllerFinder, Workload
from koordpy.descheduling.toolkit.scales import Scales, Unresolved
from koordpy.testing.cluster import cluster


def made(type_: type[KubeObject], name: str, **parts: Any) -> Any:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **parts.pop("metadata", {})}
    return decode(type_, {"metadata": metadata, **parts})


def reference(kind: str, name: str, group: str = "apps/v1", *, uid: str = "") -> dict[str, Any]:
    return {
        "apiVersion": group,
        "kind": kind,
        "name": name,
        "uid": uid or f"uid-{name}",
        "controller": True,
    }


def pod(name: str, owner: dict[str, Any] | None, *, ready: bool = True, **metadata: Any) -> Pod:
    owners = {"ownerReferences": [owner]} if owner else {}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    found: Pod = made(Pod, name, metadata={**owners, **metadata}, status=status)
    return found


def finder(*known: KubeObject) -> tuple[ControllerFinder, Cluster]:
    found = cluster(*known)
    return ControllerFinder(found, Scales(None, found.clock)), found


def size(workload: Workload | None) -> int | None:
    return None if workload is None else workload.replicas


@pytest.mark.parametrize(
    ("type_", "kind", "api_version"),
    [
        (ReplicationController, "ReplicationController", "v1"),
        (Deployment, "Deployment", "apps/v1beta2"),
        (ReplicaSet, "ReplicaSet", "apps/v1"),
        (StatefulSet, "StatefulSet", "apps/v1"),
        (CloneSet, "CloneSet", "apps.kruise.io/v1alpha1"),
        (AdvancedStatefulSet, "StatefulSet", "apps.kruise.io/v1beta1"),
    ],
)
def test_workloads_are_found_by_group_and_kind_in_any_version(
    type_: type[KubeObject], kind: str, api_version: str
) -> None:
    found, _ = finder(made(type_, "w", spec={"replicas": 7}))
    assert size(found.workload_of(pod("p", reference(kind, "w", api_version)))) == 7


def test_a_workload_of_another_uid_or_namespace_is_another_one() -> None:
    found, _ = finder(made(ReplicaSet, "w", spec={"replicas": 7}))
    assert found.workload_of(pod("p", reference("ReplicaSet", "w", uid="old"))) is None
    assert found.workload_of(pod("p", reference("ReplicaSet", "w"), namespace="other")) is None
    assert (
        size(found.find(OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="w"), "default")) == 7
    )


def test_a_pod_without_controller_has_no_workload() -> None:
    found, _ = finder()
    assert found.workload_of(pod("p", None)) is None
    assert found.expected_scale(pod("p", None)) == 0


def deployed() -> list[KubeObject]:
    """Return a Deployment of 10 with two ReplicaSets, one that it does not select, and a foreign one."""
    owner = {"ownerReferences": [reference("Deployment", "d")]}
    labels = {"labels": {"app": "d"}}
    return [
        made(Deployment, "d", spec={"replicas": 10, "selector": {"matchLabels": {"app": "d"}}}),
        made(ReplicaSet, "new", metadata={**owner, **labels}, spec={"replicas": 8}),
        made(ReplicaSet, "old", metadata={**owner, **labels}, spec={"replicas": 2}),
        made(ReplicaSet, "unlabelled", metadata=owner, spec={"replicas": 1}),
        made(ReplicaSet, "foreign", metadata=labels, spec={"replicas": 3}),
    ]


def test_a_replica_set_of_a_deployment_stands_for_the_deployment() -> None:
    pods = [pod(name, reference("ReplicaSet", name), ready=False) for name in ("new", "old", "unlabelled")]
    found, _ = finder(*deployed(), *pods, pod("ready", reference("ReplicaSet", "new")))
    workload = found.workload_of(pods[0])
    assert workload is not None
    assert (workload.kind, workload.replicas) == ("Deployment", 10)
    assert found.unavailable_pods(workload, "default") == {"default/new", "default/old"}
    assert size(found.workload_of(pod("p", reference("ReplicaSet", "foreign")))) == 3


def test_what_was_found_is_current_after_every_change() -> None:
    objects = deployed()
    found, known = finder(*objects)
    asked = pod("p", reference("ReplicaSet", "new"))
    assert size(found.workload_of(asked)) == 10
    known.store(Deployment).apply(made(Deployment, "d", spec={"replicas": 4, "selector": {}}))
    assert size(found.workload_of(asked)) == 4
    known.store(Deployment).discard("default/d")
    assert found.workload_of(asked) is None
    known.store(ReplicaSet).apply(made(ReplicaSet, "new", spec={"replicas": 6}))
    assert size(found.workload_of(asked)) == 6


def test_a_pod_becomes_available_and_unavailable() -> None:
    found, known = finder(made(ReplicaSet, "w", spec={"replicas": 2}))
    owner = reference("ReplicaSet", "w")
    workload = found.workload_of(pod("p", owner))
    assert workload is not None
    states: list[tuple[Pod, set[str]]] = [
        (pod("p", owner), set()),
        (pod("p", owner, ready=False), {"default/p"}),
        (pod("p", owner), set()),
        (pod("p", owner, deletionTimestamp="2026-01-01T00:00:00Z"), {"default/p"}),
    ]
    for state, unavailable in states:
        known.store(Pod).apply(state)
        assert found.unavailable_pods(workload, "default") == unavailable


def test_a_workload_that_is_being_deleted_expects_no_replicas() -> None:
    leaving = made(
        ReplicaSet, "w", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, spec={"replicas": 7}
    )
    found, _ = finder(leaving)
    assert size(found.workload_of(pod("p", reference("ReplicaSet", "w")))) == 7
    assert found.expected_scale(pod("p", reference("ReplicaSet", "w"))) == 0


def test_an_unknown_kind_is_unresolved_until_its_scale_was_read() -> None:
    found, _ = finder()
    with pytest.raises(Unresolved, match="the scale of Rollout default/r is not known yet"):
        found.workload_of(pod("p", reference("Rollout", "r", "argoproj.io/v1alpha1")))
