from typing import Any

import pytest

from koordpy.api.workloads import as_created_again, pod_of, pods_at_once

TEMPLATE = {"metadata": {"name": "x", "labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}


def workload(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": "w", "namespace": "ns"}, "spec": spec}


@pytest.mark.parametrize(
    "document",
    [
        workload("Deployment", {"template": TEMPLATE}),
        workload("Job", {"template": TEMPLATE}),
        workload("CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}),
        {"kind": "PodTemplate", "metadata": {"name": "w", "namespace": "ns"}, "template": TEMPLATE},
    ],
)
def test_workloads_stand_for_the_pods_that_they_create(document: dict[str, Any]) -> None:
    assert pod_of(document) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"app": "a"}, "generateName": "w-", "namespace": "ns"},
        "spec": TEMPLATE["spec"],
    }


@pytest.mark.parametrize(
    "document", [workload("Deployment", {}), workload("Service", {"template": TEMPLATE}), {"kind": "CronJob"}]
)
def test_other_objects_stand_for_no_pod(document: dict[str, Any]) -> None:
    assert pod_of(document) is None


def test_a_pod_created_again_is_without_what_others_added() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "labels": {"a": "b"},
            "uid": "u",
            "resourceVersion": "5",
            "managedFields": [],
        },
        "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": "Running"},
    }
    assert as_created_again(pod) == {
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": []},
    }
    assert pod["spec"]["nodeName"] == "n"  # type: ignore[index]


@pytest.mark.parametrize(
    ("kind", "spec", "pods"),
    [
        ("Pod", {}, 1),
        ("Deployment", {}, 1),
        ("Deployment", {"replicas": 7}, 7),
        ("StatefulSet", {"replicas": 0}, 0),
        ("Job", {}, 1),
        ("Job", {"parallelism": 5}, 5),
        ("Job", {"parallelism": 5, "completions": 3}, 3),
        ("DaemonSet", {"replicas": 4}, 1),
        ("Deployment", {"replicas": "7"}, 1),
    ],
)
def test_workloads_say_how_many_pods_they_have_at_a_time(kind: str, spec: dict[str, Any], pods: int) -> None:
    assert pods_at_once({"kind": kind, "spec": spec}) == pods
