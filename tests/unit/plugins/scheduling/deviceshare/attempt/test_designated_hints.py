"""The hint of a recorded allocation: the NUMA nodes of its devices, and no others."""

import pytest

from koordpy.api.device_allocations import DeviceAllocation, DeviceAllocations
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.interface.status import Code
from koordpy_plugins.scheduling.deviceshare.attempt.hints import BEST_SCORE, designated_hints
from koordpy_plugins.scheduling.deviceshare.state.numa_topology import NUMATopology

NUMA = NUMATopology((0, 1, 64), {"gpu": {0: 0, 1: 0, 4: 1, 9: 64}, "rdma": {0: 0, 2: 1}})


def allocation(**minors: list[int]) -> DeviceAllocations:
    return {
        type_: tuple(DeviceAllocation(minor, {}) for minor in of_type) for type_, of_type in minors.items()
    }


def hint(mask: int) -> NUMATopologyHint:
    return NUMATopologyHint(mask, preferred=True, score=BEST_SCORE)


@pytest.mark.parametrize(
    ("given", "mask"),
    [
        (allocation(gpu=[0, 1]), 0b01),
        (allocation(gpu=[4]), 0b10),
        (allocation(gpu=[0, 4]), 0b11),
        (allocation(gpu=[0], rdma=[2]), 0b11),
    ],
)
def test_all_types_have_one_hint_to_the_numa_nodes_of_all_devices(
    given: DeviceAllocations, mask: int
) -> None:
    found, status = designated_hints(given, NUMA)
    assert status.is_success
    assert found == dict.fromkeys(given, (hint(mask),))


@pytest.mark.parametrize("given", [allocation(gpu=[0, 7]), allocation(rdma=[1]), allocation(fpga=[0])])
def test_a_device_without_a_numa_node_is_refused(given: DeviceAllocations) -> None:
    found, status = designated_hints(given, NUMA)
    assert (found, status.code) == ({}, Code.UNSCHEDULABLE)
    assert status.reasons == ("Designated Allocation Lack NUMA Node ID",)


def test_an_allocation_without_types_has_no_preference() -> None:
    found, status = designated_hints({}, NUMA)
    assert (found, status.is_success) == ({}, True)


@pytest.mark.parametrize("minors", [[9], [0, 9]])
def test_numa_nodes_that_no_mask_has_are_no_preference(minors: list[int]) -> None:
    found, status = designated_hints(allocation(gpu=minors), NUMA)
    assert (found, status.is_success) == ({}, True)
