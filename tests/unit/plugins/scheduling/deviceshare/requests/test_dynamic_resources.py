"""Only that part of a pod's devices is left to kube-scheduler that it allocates."""

from koordpy.api.quantity import parse
from koordpy.testing.objects import pod
from koordpy_plugins.scheduling.deviceshare.requests.dynamic_resources import (
    left_to_kube_scheduler,
    without_left,
)

BACKED = {"nvidia.com/gpu": "gpus"}


def test_requests_without_a_device_class_stay() -> None:
    requests = {"nvidia.com/gpu": parse("1"), "koordinator.sh/rdma": parse("50")}
    assert without_left(requests, BACKED) == {"koordinator.sh/rdma": parse("50")}
    assert without_left(requests, {}) == requests


def test_claims_leave_the_requests_of_the_same_pod_alone() -> None:
    mixed = pod("p", resources={"koordinator.sh/rdma": 50}, spec={"resourceClaims": [{"name": "one"}]})
    sentence = left_to_kube_scheduler(mixed, BACKED)
    assert sentence is not None
    assert "claim one" in sentence
    assert "rdma" not in sentence


def test_nothing_is_left_of_a_pod_with_koordinators_resources() -> None:
    assert left_to_kube_scheduler(pod("p", resources={"koordinator.sh/gpu-core": 50}), BACKED) is None
