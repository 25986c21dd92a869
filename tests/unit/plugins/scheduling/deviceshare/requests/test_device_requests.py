"""The combinations of resources in which a pod may request devices, and what each comes to."""

import pytest

from koordpy.api.core import Pod
from koordpy.api.extension import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED
from koordpy.api.quantity import Quantity
from koordpy.api.resource_list import Quantities
from koordpy.api.scheme import decode
from koordpy_plugins.scheduling.deviceshare.requests.device_requests import InvalidRequest, device_requests
from koordpy_plugins.scheduling.deviceshare.requests.gpus import GPUCount, count_gpus

from ..clusters import pod
from ..nodes import amounts

CORE, MEMORY, RATIO, SHARED = GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_SHARED
GPU = "koordinator.sh/gpu"
NPU_CORE, NPU_CPU, NPU_DVPP = (f"huawei.com/npu-{name}" for name in ("core", "cpu", "dvpp"))
NPU = {SHARED: "1", NPU_CORE: "2", NPU_CPU: "1", MEMORY: "6Gi"}


def both(percent: str) -> dict[str, str]:
    return {CORE: percent, RATIO: percent}


@pytest.mark.parametrize(
    ("requested", "converted"),
    [
        ({"nvidia.com/gpu": "2"}, both("200")),
        ({"amd.com/gpu": "1"}, both("100")),
        ({"dcu.com/gpu": "3"}, both("300")),
        ({GPU: "50"}, both("50")),
        ({GPU: "200"}, both("200")),
        *(
            (requested, requested)
            for requested in (
                {MEMORY: "8Gi"},
                {RATIO: "50"},
                {CORE: "30", MEMORY: "8Gi"},
                {CORE: "200", MEMORY: "8Gi"},
                {CORE: "30", RATIO: "60"},
                {NPU_CORE: "8", RATIO: "100"},
                {SHARED: "2", MEMORY: "8Gi"},
                {SHARED: "2", RATIO: "100"},
                {SHARED: "2", CORE: "60", MEMORY: "8Gi"},
                {SHARED: "2", CORE: "60", RATIO: "200"},
                NPU,
                {**NPU, NPU_DVPP: "100"},
            )
        ),
    ],
)
def test_the_combinations_that_request_gpus(requested: dict[str, str], converted: dict[str, str]) -> None:
    assert device_requests(pod("a", requested)) == {"gpu": amounts(converted)}


def test_types_are_apart_and_zeros_request_nothing() -> None:
    requested = {GPU: "100", "koordinator.sh/rdma": "1", "koordinator.sh/fpga": "0", "cpu": "4"}
    assert device_requests(pod("a", requested)) == {
        "gpu": amounts(both("100")),
        "rdma": amounts({"koordinator.sh/rdma": "1"}),
    }
    assert device_requests(pod("a", {GPU: "0"})) == {}


def test_a_pod_requests_the_most_that_its_init_containers_do_and_its_overhead() -> None:
    spec = {
        "overhead": {GPU: "100"},
        "initContainers": [{"name": "i", "resources": {"requests": {GPU: "200"}}}],
        "containers": [{"name": "c", "resources": {"requests": {GPU: "100"}}}],
    }
    found = device_requests(decode(Pod, {"metadata": {"name": "a", "namespace": "x"}, "spec": spec}))
    assert found == {"gpu": amounts(both("300"))}


@pytest.mark.parametrize("name", [GPU, "koordinator.sh/rdma", "koordinator.sh/fpga"])
def test_several_devices_are_whole(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^invalid resource unit {name}: 150$"):
        device_requests(pod("a", {name: "150"}))
    assert device_requests(pod("a", {name: "300"}))


@pytest.mark.parametrize(
    "requested",
    [
        {CORE: "50"},
        {SHARED: "1"},
        {MEMORY: "8Gi", RATIO: "50"},
        {GPU: "100", "nvidia.com/gpu": "1"},
        {GPU: "100", SHARED: "1"},
        {RATIO: "150"},
        {CORE: "150", MEMORY: "8Gi"},
        {CORE: "100", RATIO: "101"},
        {NPU_CORE: "8", RATIO: "150"},
        {SHARED: "2", RATIO: "101"},
        {SHARED: "2", RATIO: "202"},
        {SHARED: "9e30", CORE: "100", MEMORY: "8Gi"},  # 64 bits hold 0 of it
        {SHARED: "2", CORE: "99", MEMORY: "8Gi"},
        {SHARED: "2", CORE: "202", RATIO: "200"},
        {**NPU, SHARED: "2"},
        {**NPU, NPU_DVPP: "101"},
        {NPU_CORE: "2", NPU_CPU: "1", MEMORY: "6Gi"},
    ],
)
def test_other_combinations_are_refused(requested: dict[str, str]) -> None:
    names = " ".join(sorted(requested))
    with pytest.raises(InvalidRequest) as refusal:
        device_requests(pod("a", requested))
    assert str(refusal.value) == f"invalid resource device requests: [{names}]"


def test_resources_of_device_classes_are_left_to_kube_scheduler() -> None:
    requested = {"nvidia.com/gpu": "1", "koordinator.sh/rdma": "1"}
    assert device_requests(pod("a", requested), {"nvidia.com/gpu": "gpus.nvidia.com"}) == {
        "rdma": amounts({"koordinator.sh/rdma": "1"})
    }


@pytest.mark.parametrize(
    ("requested", "count", "each", "shared"),
    [
        (both("100"), 1, both("100"), False),
        (both("300"), 3, both("100"), False),
        (both("40"), 1, both("40"), True),
        ({MEMORY: "8Gi"}, 1, {MEMORY: "8Gi"}, True),
        ({CORE: "200", MEMORY: "8Gi"}, 1, {CORE: "200", MEMORY: "8Gi"}, True),
        ({SHARED: "2", MEMORY: "8Gi"}, 2, {MEMORY: "4Gi"}, True),
        ({SHARED: "2", RATIO: "200"}, 2, {RATIO: "100"}, False),
        ({SHARED: "2", CORE: "100", RATIO: "100"}, 2, both("50"), True),
        ({NPU_CORE: "8", RATIO: "200"}, 2, {NPU_CORE: "4", RATIO: "100"}, False),
        ({**NPU, NPU_DVPP: "50"}, 1, {NPU_CORE: "2", NPU_CPU: "1", NPU_DVPP: "50", MEMORY: "6Gi"}, True),
    ],
)
def test_a_request_is_for_so_much_of_so_many_gpus(
    requested: dict[str, str], count: int, each: dict[str, str], shared: bool
) -> None:
    assert count_gpus(amounts(requested)) == GPUCount(count, amounts(each), shared)


def test_memory_is_divided_among_gpus_and_the_rest_is_dropped() -> None:
    found = count_gpus({SHARED: Quantity.of(3), MEMORY: Quantity.of(100)})
    expected: Quantities = {MEMORY: Quantity.of(33)}
    assert found.request == expected
