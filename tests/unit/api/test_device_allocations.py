"""The annotation device-allocated is written as Koordinator writes it, and read back."""

import pytest

from koordpy.api import device_allocations
from koordpy.api.device_allocations import AllocatedFunction, DeviceAllocation
from koordpy.api.extension import ANNOTATION_DEVICE_ALLOCATED
from koordpy.api.quantity import parse


def test_fields_are_in_koordinators_order_and_empty_ones_are_left_out() -> None:
    gpu = DeviceAllocation(
        0, {"koordinator.sh/gpu-memory": parse("16Gi"), "koordinator.sh/gpu-core": parse("100")}, "GPU-8c25"
    )
    card = DeviceAllocation(
        1,
        {"koordinator.sh/rdma": parse("100")},
        virtual_functions=(AllocatedFunction("0000:1f:00.2"), AllocatedFunction("0000:1f:00.3", 1)),
    )
    npu = DeviceAllocation(2, {}, template="vir01")
    assert device_allocations.text({"rdma": [card], "gpu": [gpu, npu]}) == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"16Gi"},'
        '"id":"GPU-8c25"},{"minor":2,"resources":{},"extension":{"gpuSharedResourceTemplate":"vir01"}}],'
        '"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":"100"},"extension":{"vfs":'
        '[{"busID":"0000:1f:00.2"},{"minor":1,"busID":"0000:1f:00.3"}]}}]}'
    )


def test_what_is_written_is_read_back() -> None:
    allocation = DeviceAllocation(
        3, {"koordinator.sh/rdma": parse("1")}, "id", (AllocatedFunction("0000:1f:00.2", 4),), "t"
    )
    text = device_allocations.text({"rdma": (allocation,)})
    assert device_allocations.of({ANNOTATION_DEVICE_ALLOCATED: text}) == {"rdma": (allocation,)}


@pytest.mark.parametrize(
    "text",
    [
        '{"gpu":[{"minor":0,"resources":{"a":[1]}}]}',
        '{"gpu":[{"minor":0,"resources":{"a":{"b":1}}}]}',
        '{"gpu":[{"minor":2147483648}]}',
        '{"gpu":[{"minor":0,"extension":{"vfs":[1]}}]}',
        '{"gpu":[{"minor":0,"resources":{"a":1' + "0" * 5000 + "}}]}",
    ],
)
def test_what_is_no_allocation_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="device-allocated"):
        device_allocations.of({ANNOTATION_DEVICE_ALLOCATED: text})
