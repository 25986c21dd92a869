"""What a node's devices have, and what stays known of them."""

from koordpy.api.device_allocations import AllocatedFunction, DeviceAllocation
from koordpy.api.extension import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA
from koordpy_plugins.scheduling.deviceshare.state.node_devices import NodeDevices

from ..nodes import HALF, WHOLE, amounts, card, device, gpu, node


def texts(by_minor):
    return {minor: {name: str(amount) for name, amount in each.items()} for minor, each in by_minor.items()}


def taking(minor, what, **more):
    return DeviceAllocation(minor, amounts(what), **more)


def test_unhealthy_devices_are_known_and_have_nothing():
    devices = node([gpu(0), gpu(1, health=False)])
    assert texts(devices.total["gpu"]) == {0: WHOLE, 1: {}}


def test_what_pods_use_is_not_free():
    devices = node([gpu(0), gpu(1)], used={1: HALF})
    assert texts(devices.free["gpu"]) == {0: WHOLE, 1: HALF}
    devices.remove("x/p1")
    assert texts(devices.free["gpu"]) == {0: WHOLE, 1: WHOLE}
    assert devices.used == {}


def test_a_pod_has_devices_once():
    devices = node([gpu(0)])
    for _ in range(2):
        devices.add("x/p", {"gpu": (taking(0, {GPU_CORE: "10"}),)})
    assert texts(devices.used["gpu"]) == {0: {GPU_CORE: "10"}}


def test_a_device_that_an_annotation_lists_twice_is_used_twice_and_its_last_entry_is_the_pods():
    devices = node([gpu(0)])
    devices.add("x/p", {"gpu": (taking(0, {GPU_CORE: "10"}), taking(0, {GPU_CORE: "20"}))})
    assert texts(devices.used["gpu"]) == {0: {GPU_CORE: "30"}}
    assert texts(devices.of_pod("x/p")["gpu"]) == {0: {GPU_CORE: "20"}}
    devices.remove("x/p")
    assert devices.used == {}


def test_a_used_minor_that_is_not_listed_counts_as_a_device_until_the_next_device():
    devices = NodeDevices()
    devices.add("x/p", {"rdma": (taking(7, {RDMA: "100"}),)})
    devices.remove("x/p")
    assert texts(devices.total["rdma"]) == {7: {}}
    devices.set_device(device([card(0)]), None)
    assert texts(devices.total["rdma"]) == {0: {RDMA: "100"}}


def test_what_pods_name_and_no_device_lists_does_not_add_up():
    devices = node([gpu(0), gpu(70), gpu(0, type="xpu")])
    for at in range(100, 130):
        named = {type_: (taking(at, {"a": "1"}),) for type_ in ("gpu", f"type-{at}", "xpu")}
        devices.add("x/p", named)
        devices.remove("x/p")
    assert set(devices.total) == set(devices.free) == {"gpu", "xpu"}
    assert set(devices.total["gpu"]) == set(devices.free["gpu"]) == {0, 70}
    assert set(devices.total["xpu"]) == {0}


def test_types_that_no_device_lists_any_more_are_forgotten_unless_they_are_allocated():
    devices = node([gpu(0), gpu(0, type="xpu"), gpu(0, type="ypu")])
    devices.add("x/p", {"ypu": (taking(0, {"a": "1"}),)})
    devices.set_device(device([]), None)
    assert texts(devices.total["ypu"]) == {0: {}}
    assert devices.total.keys() == {"gpu", "ypu"}


def test_a_deleted_device_has_nothing_and_its_usage_stays():
    devices = node([gpu(0), card(0)], used={0: HALF})
    devices.remove_device(device([gpu(0), card(0)]))
    assert texts(devices.total["gpu"]) == {0: {}}
    assert texts(devices.used["gpu"]) == {0: HALF}
    assert devices.gpu_topology is not None
    devices.set_device(device([gpu(0), card(0)]), None)
    assert texts(devices.free["gpu"]) == {0: HALF}


def test_virtual_functions_are_known_by_device():
    devices = node([card(0)])
    for name, address in (("a", "1"), ("b", "2"), ("c", "2")):
        functions = (AllocatedFunction(address),)
        devices.add(f"x/{name}", {"rdma": (taking(0, {RDMA: "1"}, virtual_functions=functions),)})
    devices.remove("x/b")
    assert devices.vf_allocations == {"rdma": {0: {"1", "2"}}}
    devices.remove("x/c")
    assert devices.vf_allocations == {"rdma": {0: {"1"}}}


def test_devices_without_affinity_are_on_no_numa_node():
    devices = node([gpu(0), gpu(4), gpu(5, topology={"nodeID": -1}), gpu(6, topology=None)])
    assert devices.numa.nodes == (0, 1)
    assert devices.numa.node_of == {"gpu": {0: 0, 4: 1}}
    assert devices.gpu_topology is None


def test_an_amount_that_cannot_be_read_is_nothing():
    assert texts(node([gpu(0, resources={GPU_CORE: "x"})]).total["gpu"]) == {0: {}}


def test_minors_that_have_no_bit_are_harmless():
    far = 2**31 - 1
    devices = node([gpu(0), gpu(far, topology={"nodeID": 9, "pcieID": "p"})])
    devices.add("x/p", {"gpu": (taking(far, HALF), taking(-(2**31), HALF))})
    assert devices.gpu_topology is not None
    assert devices.gpu_topology.bits == 1
    assert texts(devices.free["gpu"])[far] == HALF


def test_the_summary_has_sums_and_details():
    devices = node([gpu(0), gpu(1)])
    devices.add("ns/pod1", {"gpu": (taking(0, {GPU_CORE: "49"}),)})
    summary = devices.summary()
    assert summary["deviceTotal"] == {GPU_CORE: "200", GPU_MEMORY: "32Gi", GPU_MEMORY_RATIO: "200"}
    assert summary["deviceFreeDetail"] == {"gpu": {"0": {**WHOLE, GPU_CORE: "51"}, "1": WHOLE}}
    assert summary["deviceUsed"] == {GPU_CORE: "49"}
    assert summary["allocateSet"] == {"gpu": {"ns/pod1": {"0": {GPU_CORE: "49"}}}}
