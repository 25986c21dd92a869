"""DeviceClasses: the extended resources that they back, and what of a pod they leave to kube-scheduler."""

from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.device_class import DeviceClass, classes_by_resource, left_to_dynamic_resources
from koordpy.api.scheme import decode

OLD, NEW = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"


def class_(name: str, resource: str | None = None, created: str = OLD) -> DeviceClass:
    spec: dict[str, Any] = {} if resource is None else {"extendedResourceName": resource}
    return decode(DeviceClass, {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec})


def pod(*claims: str, **requests: str) -> Pod:
    containers = [{"name": "c", "resources": {"requests": requests}}]
    found = [{"name": name} for name in claims]
    return decode(
        Pod, {"metadata": {"name": "p"}, "spec": {"containers": containers, "resourceClaims": found}}
    )


def test_each_class_backs_its_resource_and_the_one_of_its_name() -> None:
    assert classes_by_resource([class_("gpu", "example.com/gpu"), class_("nic")]) == {
        "example.com/gpu": "gpu",
        "deviceclass.resource.kubernetes.io/gpu": "gpu",
        "deviceclass.resource.kubernetes.io/nic": "nic",
    }


@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        ([("a", OLD), ("b", NEW)], "b"),
        ([("a", NEW), ("b", OLD)], "a"),
        ([("b", OLD), ("a", OLD)], "a"),
    ],
)
def test_of_classes_of_one_resource_the_newest_counts_then_the_first_by_name(
    classes: list[tuple[str, str]], chosen: str
) -> None:
    found = classes_by_resource(class_(name, "example.com/gpu", created) for name, created in classes)
    assert found["example.com/gpu"] == chosen


BACKED = {"nvidia.com/gpu": "gpus", "deviceclass.resource.kubernetes.io/nics": "nics"}
START = "kube-scheduler's plugin DynamicResources, not koordpy, allocates "


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (pod(cpu="1"), ""),
        (pod(**{"koordinator.sh/gpu-core": "50"}), ""),
        (pod(**{"nvidia.com/gpu": "0"}), ""),
        (pod(**{"nvidia.com/gpu": "1"}), f"{START}nvidia.com/gpu (DeviceClass gpus)"),
        (pod("a"), f"{START}resource claim a"),
        (
            pod("a", "b", **{"nvidia.com/gpu": "1", "deviceclass.resource.kubernetes.io/nics": "2"}),
            f"{START}resource claims a, b, deviceclass.resource.kubernetes.io/nics (DeviceClass nics), "
            "nvidia.com/gpu (DeviceClass gpus)",
        ),
    ],
)
def test_claims_and_backed_resources_are_left_to_kube_scheduler(pod: Pod, expected: str) -> None:
    assert left_to_dynamic_resources(pod, BACKED) == expected
