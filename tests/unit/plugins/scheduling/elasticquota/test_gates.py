"""What the feature gates of the scheduler change in how pods count."""

from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import DEFAULT, ROOT

from .quota_world import World, pod_document


def requested(world: World, name: str, resource: str = "cpu") -> str:
    info = world.trees.quota(name)
    assert info is not None
    return str(info.request.get(resource, "-"))


@pytest.mark.parametrize(("ignored", "cpu"), [(False, "3"), (True, "2")])
def test_the_overhead_of_a_pod_counts_unless_it_is_ignored(ignored: bool, cpu: str) -> None:
    world = World(ElasticQuotaIgnorePodOverhead=ignored)
    world.quota("a")
    document = pod_document("p1", "a", 2, node="n1")
    document["spec"]["overhead"] = {"cpu": "1"}
    world.put(Pod, document)
    assert (requested(world, "a"), world.used("a")) == (cpu, cpu)


def terminating(deleted: str, grace: int | None = 30) -> dict[str, Any]:
    document = pod_document("p1", "a", 2, node="n1")
    document["metadata"] |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": grace}
    return document


LONG_AGO, JUST_NOW = "2029-12-31T23:59:20Z", "2029-12-31T23:59:50Z"


@pytest.mark.parametrize(
    ("gates", "deleted", "cpu"),
    [
        ({}, LONG_AGO, "2"),
        ({"ElasticQuotaIgnoreTerminatingPod": True}, JUST_NOW, "2"),
        ({"ElasticQuotaIgnoreTerminatingPod": True}, LONG_AGO, "0"),
        ({"ElasticQuotaImmediateIgnoreTerminatingPod": True}, JUST_NOW, "0"),
    ],
)
def test_pods_that_are_being_deleted_count_until_a_gate_says_otherwise(
    gates: dict[str, bool], deleted: str, cpu: str
) -> None:
    world = World(None, **gates)
    world.quota("a")
    world.pod("p1", "a", 2, node="n1")
    assert world.used("a") == "2"
    pod = world.put(Pod, terminating(deleted))
    assert (requested(world, "a"), world.used("a")) == (cpu, cpu)
    world.delete(pod)
    assert (requested(world, "a"), world.used("a")) == ("0", "0")


def test_without_a_default_quota_only_pods_with_a_known_label_count() -> None:
    world = World(DisableDefaultQuota=True)
    world.quota("a")
    world.pod("p1", "a", 2, node="n1")
    world.pod("p2", "unknown", 3, node="n1")
    world.pod("p3", "", 4, node="n1")
    assert (world.used("a"), world.used(DEFAULT)) == ("2", "0")
    world.pod("p1", "", 2, node="n1")
    assert world.used("a") == "0"


def test_with_the_default_quota_pods_without_label_count_there() -> None:
    world = World()
    world.quota("a")
    world.pod("p2", "unknown", 3, node="n1")
    world.pod("p3", "", 4, node="n1")
    assert world.used(DEFAULT) == "7"


def test_pods_of_the_root_quota_are_neither_counted_nor_refused() -> None:
    world = World()
    world.node("n1", 1)
    world.put(ElasticQuota, {"metadata": {"name": ROOT, "namespace": "quotas"}, "spec": {}})
    pod = world.pod("p1", ROOT, 99)
    assert world.filter(pod).is_success
    world.pod("p1", ROOT, 99, node="n1")
    info = world.trees.quota(ROOT)
    assert info is not None
    assert all(amount.is_zero for amount in info.used.values())


def test_deprecated_names_of_batch_resources_are_read_in_quotas_and_pods_alike() -> None:
    world = World()
    spec = {"max": {"koordinator.sh/batch-cpu": "4000"}, "min": {"koordinator.sh/batch-cpu": "1000"}}
    world.put(ElasticQuota, {"metadata": {"name": "a", "namespace": "quotas"}, "spec": spec})
    info = world.trees.quota("a")
    assert info is not None
    assert (set(info.max), set(info.min)) == ({"kubernetes.io/batch-cpu"}, {"kubernetes.io/batch-cpu"})


def test_resources_that_the_maximum_does_not_name_are_neither_counted_nor_limited() -> None:
    world = World()
    world.node("n1", 10)
    world.quota("a", most=4)
    document = pod_document("p1", "a", 1)
    document["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "8"
    pod = world.put(Pod, document)
    assert world.filter(pod).is_success
    assert requested(world, "a", "nvidia.com/gpu") == "-"


def test_a_resource_that_is_over_used_refuses_pods_that_do_not_request_it() -> None:
    world = World({"enableRuntimeQuota": False})
    quota = {"metadata": {"name": "a", "namespace": "quotas"}, "spec": {"max": {"cpu": "4", "memory": "1"}}}
    world.put(ElasticQuota, quota)
    document = pod_document("p1", "a", 1, node="n1")
    document["spec"]["containers"][0]["resources"]["requests"]["memory"] = "2"
    world.put(Pod, document)
    assert world.filter(world.pod("p2", "a", 1)).message == (
        "Insufficient quotas, quotaName: a, runtime: cpu:4,memory:1, used: cpu:1,memory:2, "
        "pod's request: cpu:1, exceedDimensions: [memory]"
    )
