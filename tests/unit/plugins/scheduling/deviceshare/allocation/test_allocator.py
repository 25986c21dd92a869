"""Network cards, virtual functions, joint allocation, and how many devices a pod gets."""

import pytest

from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.extension import GPU_MEMORY, GPU_MEMORY_RATIO, RDMA
from koordpy.api.label_selector import of_labels
from koordpy_plugins.scheduling.deviceshare.allocation.allocator import allocate, score
from koordpy_plugins.scheduling.deviceshare.allocation.requests import (
    APPLY_FOR_ALL,
    DEVICE_LEVEL,
    REQUESTS_AS_COUNT,
    DeviceHint,
    GPURequirements,
    JointAllocation,
    Requests,
)
from koordpy_plugins.scheduling.deviceshare.scoring import Scorer

from ..nodes import WHOLE, amounts, card, gpu, gpus, node

GPUS = tuple(map(gpu, range(8)))
CARDS = tuple(map(card, range(4)))
EVERYTHING = of_labels({})


def cards(amount="100", **hint):
    return Requests({"rdma": amounts({RDMA: amount})}, hints={"rdma": DeviceHint(**hint)} if hint else {})


def jointly(count, rdma="100", scope="", **hint):
    alone = gpus(count)
    hints = {"rdma": DeviceHint(**hint)} if hint else {}
    joint = JointAllocation(("gpu", "rdma"), scope)
    return Requests({**alone.amounts, "rdma": amounts({RDMA: rdma})}, alone.gpu, hints, joint)


def chosen(devices, requests, **options):
    found, status = allocate(devices, {}, requests, **options)
    if not status.is_success:
        return list(status.reasons)
    return {type_: [each.minor for each in allocations] for type_, allocations in found.items()}


def test_a_card_is_taken_whole_or_in_part():
    devices = node(CARDS)
    assert chosen(devices, cards("1")) == {"rdma": [0]}
    assert chosen(devices, cards("300")) == {"rdma": [0, 1, 2]}
    assert chosen(devices, cards("500")) == ["Insufficient rdma devices"]
    assert chosen(node(GPUS), cards()) == ["Insufficient rdma devices"]


def test_strategies_of_hints_decide_how_many():
    labels = {"type": "w"}
    devices = node([card(0), card(1, labels=labels), card(2, health=False), card(3, labels=labels)])
    assert chosen(devices, cards("1", strategy=APPLY_FOR_ALL)) == ["Insufficient rdma devices"]
    selected = cards("1", strategy=APPLY_FOR_ALL, selector=of_labels(labels))
    assert chosen(devices, selected) == {"rdma": [1, 3]}
    unknown = cards("1", strategy=APPLY_FOR_ALL, selector=of_labels({"type": "z"}))
    assert chosen(devices, unknown) == ["Insufficient rdma devices"]
    counted, _ = allocate(devices, {}, cards("2", strategy=REQUESTS_AS_COUNT))
    assert [(each.minor, str(each.resources[RDMA])) for each in counted["rdma"]] == [(0, "1"), (1, "1")]
    whole, _ = allocate(devices, {}, cards("2", strategy=REQUESTS_AS_COUNT, exclusive_policy=DEVICE_LEVEL))
    assert [str(each.resources[RDMA]) for each in whole["rdma"]] == ["100", "100"]


def test_the_exclusive_policy_of_switches_has_no_effect():
    devices = node([gpu(0), *CARDS], used={0: WHOLE})
    for exclusive in ("", "PCIeLevel", "unknown"):
        assert chosen(devices, cards("50", exclusive_policy=exclusive)) == {"rdma": [0]}
        assert chosen(devices, cards("2", strategy=REQUESTS_AS_COUNT, exclusive_policy=exclusive)) == {
            "rdma": [0, 1]
        }


def test_no_scope_is_a_single_device():
    wanted = gpus(required_scope="Device")
    assert chosen(node(GPUS), wanted) == ["Insufficient Topology Scoped GPU Devices"]
    assert chosen(node(GPUS), gpus(required_scope="unknown")) == {"gpu": [0]}


def test_the_free_virtual_function_with_the_smallest_address_is_taken():
    groups = [{"labels": {"a": "b"}, "vfs": [{"minor": 9, "busID": "0000:a.3"}, {"busID": "0000:a.12"}]}]
    devices = node([card(0, vfGroups=groups)])
    taken = [allocate(devices, {}, cards("1", vf_selector=EVERYTHING))[0] for _ in range(2)]
    assert taken[0] == taken[1]
    assert [each.bus_id for each in taken[0]["rdma"][0].virtual_functions] == ["0000:a.12"]
    devices.add("x/a", taken[0])
    second, _ = allocate(devices, {}, cards("1", vf_selector=EVERYTHING))
    assert [(each.bus_id, each.minor) for each in second["rdma"][0].virtual_functions] == [("0000:a.3", 9)]
    devices.add("x/b", second)
    assert chosen(devices, cards("1", vf_selector=EVERYTHING)) == ["Insufficient rdma devices"]
    devices.remove("x/a")
    assert chosen(devices, cards("1", vf_selector=EVERYTHING)) == {"rdma": [0]}
    assert chosen(devices, cards("1", vf_selector=of_labels({"a": "c"}))) == ["Insufficient rdma devices"]
    assert chosen(node(CARDS), cards("1", vf_selector=EVERYTHING)) == ["Insufficient rdma VirtualFunctions"]


def test_cards_are_near_the_gpus_of_a_joint_allocation():
    devices = node([*GPUS, *CARDS], used=dict.fromkeys(range(4), WHOLE))
    assert chosen(devices, jointly(2)) == {"gpu": [4, 5], "rdma": [2]}
    assert chosen(devices, jointly(4)) == {"gpu": [4, 5, 6, 7], "rdma": [2, 3]}
    far = node([*GPUS, *CARDS[:1]], used=dict.fromkeys(range(4), WHOLE))
    assert chosen(far, jointly(2)) == {"gpu": [4, 5], "rdma": [0]}
    assert chosen(far, jointly(2, scope="SamePCIe")) == ["node(s) Device Joint-Allocate rules violation"]
    assert chosen(devices, jointly(4, scope="SamePCIe")) == {"gpu": [4, 5, 6, 7], "rdma": [2, 3]}


def test_cards_are_left_to_reserve_where_there_are_enough_near_each_gpu():
    labels = {"node.koordinator.sh/secondary-device-well-planned": "true"}
    devices = node([*GPUS, *CARDS], labels=labels)
    assert chosen(devices, jointly(1)) == {"gpu": [0]}
    assert chosen(devices, jointly(1), reserving=True) == {"gpu": [0], "rdma": [0]}


def test_required_and_preferred_minors_of_cards():
    devices = node(CARDS)
    assert chosen(devices, cards(), preferred={"rdma": {2}}) == {"rdma": [2]}
    assert chosen(devices, cards(), required={"rdma": {3}}) == {"rdma": [3]}
    assert chosen(devices, cards("200"), preferred={"rdma": {2}}) == {"rdma": [2, 0]}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [({}, [1, 5, 2, 6, 0, 3, 4, 7]), ({5: "90", 6: "50"}, [6, 1, 5, 2, 0, 3, 4, 7])],
)
def test_cards_of_preferred_switches_take_turns(scores, expected):
    places = {1: "0", 2: "0", 5: "1", 6: "1"}
    devices = node(
        [
            *(card(minor, topology={"pcieID": places.get(minor, "x")}) for minor in range(8)),
            gpu(0, topology={"pcieID": "0"}),
            gpu(1, topology={"pcieID": "1"}),
        ]
    )
    for minor, free in scores.items():
        _use_card(devices, minor, 100 - int(free))
    wanted = jointly(2, "1", strategy=APPLY_FOR_ALL)
    scorer = Scorer({RDMA: 1}, most_allocated=True)
    assert chosen(devices, wanted, scorer=scorer)["rdma"] == expected


def _use_card(devices, minor, used):
    devices.add(f"x/c{minor}", {"rdma": (DeviceAllocation(minor, amounts({RDMA: str(used)})),)})


def test_the_score_of_a_node_is_that_of_all_its_devices():
    scorer = Scorer(dict.fromkeys((GPU_MEMORY_RATIO, GPU_MEMORY, RDMA), 1))
    assert score(node([gpu(0)]), gpus(), scorer)[0] == 50
    half = amounts({"koordinator.sh/gpu-core": "50", GPU_MEMORY_RATIO: "50"})
    shared = Requests({"gpu": half}, GPURequirements(half, shared=True))
    assert score(node([gpu(0), gpu(1)]), shared, scorer)[0] == 87
    assert score(node(CARDS), gpus(), scorer)[1].reasons == ("Insufficient gpu devices",)


def test_a_resource_that_a_device_lacks_does_not_limit_it():
    devices = node([gpu(0, resources={"koordinator.sh/gpu-core": "100"})])
    assert chosen(devices, gpus()) == {"gpu": [0]}
    over = amounts({"koordinator.sh/gpu-core": "101"})
    assert chosen(devices, Requests({"gpu": over}, GPURequirements(over))) == ["Insufficient GPU Devices"]
