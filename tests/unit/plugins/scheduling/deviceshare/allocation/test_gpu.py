"""Which GPUs of a node a pod gets. Cases are those of the specification, on eight GPUs."""

import pytest

from koordpy.api.extension import GPU_MEMORY, GPU_MEMORY_RATIO
from koordpy.api.quantity import parse
from koordpy.scheduling.interface.status import Code
from koordpy_plugins.scheduling.deviceshare.allocation import gpu_memory
from koordpy_plugins.scheduling.deviceshare.allocation.allocator import allocate
from koordpy_plugins.scheduling.deviceshare.scoring import Scorer

from ..nodes import HALF, HOPPER, WHOLE, device, gpu, gpus, node

MOST = Scorer({GPU_MEMORY_RATIO: 1}, most_allocated=True)
NO_PARTITION = "Insufficient Partitioned GPU Devices"
GO_SORTED = [((0, 1), 8), ((4, 5), 12), ((6, 7), 8)]
LEAST = Scorer({GPU_MEMORY_RATIO: 1})


def chosen(devices, requests, labels=None, **options):
    found, status = allocate(devices, labels or {}, requests, **options)
    return [each.minor for each in found.get("gpu", ())] if status.is_success else list(status.reasons)


@pytest.mark.parametrize(
    ("used", "count", "more", "expected"),
    [
        ({4}, 1, {}, [5]),
        ({4}, 2, {}, [6, 7]),
        ({2, 3}, 2, {}, [0, 1]),
        ({2, 3}, 3, {"honors_partitions": True}, ["node(s) Unsupported number of GPU requests"]),
        ({2, 3}, 3, {}, [4, 5, 6]),
        (set(range(8)), 1, {"honors_partitions": True}, [NO_PARTITION]),
        (set(), 1, {"honors_partitions": True, "bandwidth": parse("1Gi")}, [NO_PARTITION]),
    ],
)
def test_partitions_of_hopper_gpus_leave_large_partitions_free(used, count, more, expected):
    devices = node(used=dict.fromkeys(used, WHOLE))
    assert chosen(devices, gpus(count, **more), HOPPER) == expected


@pytest.mark.parametrize(
    ("used", "count", "scope", "expected"),
    [
        ({5}, 1, "", [4]),
        ({5}, 2, "", [6, 7]),
        ({5}, 4, "NUMANode", [0, 1, 2, 3]),
        ({0, 5}, 4, "NUMANode", ["Insufficient Topology Scoped GPU Devices"]),
        ({0, 5}, 4, "", [1, 2, 3, 4]),
        (set(), 1, "Device", ["Insufficient Topology Scoped GPU Devices"]),
        (set(range(8)), 1, "", ["Insufficient GPU Devices"]),
    ],
)
def test_gpus_are_near_each_other_and_where_gpus_are_in_use(used, count, scope, expected):
    devices = node(used=dict.fromkeys(used, WHOLE))
    assert chosen(devices, gpus(count, required_scope=scope)) == expected


def test_a_shared_gpu_is_the_fullest_when_fullness_scores():
    devices = node(used={5: WHOLE, 7: HALF})
    assert chosen(devices, gpus(1, HALF), scorer=MOST) == [7]


@pytest.mark.parametrize(("scorer", "expected"), [(MOST, [0]), (LEAST, [1])])
def test_the_score_of_shared_gpus_knows_only_whether_they_are_used(scorer, expected):
    quarter = {GPU_MEMORY_RATIO: "25"}
    devices = node([gpu(0), gpu(1, topology={"nodeID": 0, "pcieID": "0"})], used={0: quarter})
    assert chosen(devices, gpus(1, quarter), scorer=scorer) == expected


def test_unhealthy_gpus_are_not_chosen():
    devices = node([gpu(0, health=False), gpu(1)])
    assert chosen(devices, gpus()) == [1]
    assert chosen(devices, gpus(2)) == ["Insufficient GPU Devices"]


def test_gpus_without_a_place_are_chosen_by_score():
    devices = node([gpu(0, topology=None), gpu(1)], used={0: HALF})
    assert chosen(devices, gpus(1, HALF), scorer=MOST) == [0]
    assert chosen(devices, gpus(1, HALF), scorer=LEAST) == [1]
    assert chosen(devices, gpus(1, HALF, required_scope="PCIe")) == [
        "node(s) missing GPU Device Topology Tree"
    ]


def test_the_table_of_the_device_replaces_that_of_the_model():
    table = {"scheduling.koordinator.sh/gpu-partitions": '{"2":[{"minors":[1,0],"allocationScore":1}]}'}
    devices = node(annotations=table, labels={"node.koordinator.sh/gpu-partition-policy": "Honor"})
    assert chosen(devices, gpus(2), HOPPER) == [1, 0]
    assert chosen(devices, gpus(1), HOPPER) == ["node(s) Unsupported number of GPU requests"]


def test_restricted_pods_get_the_first_score_alone():
    table = '{"1":[{"minors":[3],"allocationScore":2},{"minors":[6],"allocationScore":1}]}'
    annotations = {"scheduling.koordinator.sh/gpu-partitions": table}
    assert chosen(node(annotations=annotations), gpus()) == [6]
    used = node(used={6: WHOLE}, annotations=annotations)
    assert chosen(used, gpus()) == [3]
    restricted = gpus(honors_partitions=True, restricted=True)
    assert chosen(used, restricted) == ["Insufficient Partitioned GPU Devices"]


# What sort.Slice of a Go program puts first of 16 scores, of which those of one pair are the lowest.
@pytest.mark.parametrize(("pair", "expected"), GO_SORTED)
def test_of_more_than_twelve_equal_partitions_gos_sort_decides(pair, expected):
    singles = ",".join(f'{{"minors":[{minor}]}}' for minor in range(16))
    pairs = f'{{"minors":[{pair[0]},{pair[1]}],"allocationScore":1}}'
    table = {"scheduling.koordinator.sh/gpu-partitions": f'{{"1":[{singles}],"2":[{pairs}]}}'}
    assert chosen(node(map(gpu, range(16)), annotations=table), gpus()) == [expected]


def test_a_template_is_named_in_the_allocation():
    per_gpu = {"huawei.com/npu-core": "1", GPU_MEMORY: "3Gi"}
    npus = node([gpu(0, resources={"huawei.com/npu-core": "8", GPU_MEMORY: "24Gi"})])
    labels = {"node.koordinator.sh/gpu-vendor": "huawei", "node.koordinator.sh/gpu-model": "A"}
    wanted = gpus(1, per_gpu, enforces_templates=True, templates={"huawei-A": frozenset(("vir01",))})
    found, status = allocate(npus, labels, wanted)
    assert status.is_success
    assert [each.template for each in found["gpu"]] == ["vir01"]
    found, status = allocate(npus, {}, wanted)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("no matched GPU shared resource template",)
    completed = gpu_memory.complete(allocate(npus, labels, wanted)[0], npus)
    assert str(completed["gpu"][0].resources[GPU_MEMORY_RATIO]) == "12"


def test_the_memory_of_a_whole_gpu_is_completed():
    devices = node()
    found, _ = allocate(devices, {}, gpus())
    resources = gpu_memory.complete(found, devices)["gpu"][0].resources
    assert {name: str(amount) for name, amount in resources.items()} == WHOLE
    devices.remove_device(device(map(gpu, range(8))))
    with pytest.raises(ValueError, match="no healthy gpu device with minor 0 of allocation"):
        gpu_memory.complete(found, devices)


def test_what_is_given_back_counts_as_free_and_what_is_not_reserved_does_not():
    devices = node(used=dict.fromkeys(range(8), WHOLE))
    given = {"gpu": {3: devices.used["gpu"][3]}}
    assert chosen(devices, gpus()) == ["Insufficient GPU Devices"]
    assert chosen(devices, gpus(), preemptible=given) == [3]
    free = node()
    assert chosen(free, gpus(), required_resources=given | {"gpu": {6: devices.used["gpu"][6]}}) == [6]


def test_a_numa_mask_leaves_out_the_gpus_of_other_nodes():
    devices = node()
    assert chosen(devices, gpus(), numa_mask=0b10) == [4]
    assert chosen(devices, gpus(8), numa_mask=0b10) == ["Insufficient GPU Devices"]
