"""Device objects that no node agent should write: every point answers, and nothing is given away for them."""

import json
from typing import Any

import pytest

from koordpy.api.core import Node
from koordpy.api.device import Device
from koordpy.api.device_allocations import MOST_DEVICES
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import GPUS
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT, SchedulingHintState
from koordpy_plugins.scheduling.deviceshare.scoring import ScoreError
from koordpy_plugins.scheduling.deviceshare.state.ledger import MOST_FUNCTIONS

from .clusters import NODE, PERCENT, Profile, minors, pod
from .nodes import WHOLE, card, device, gpu

PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"
CORE, RATIO, MEMORY = WHOLE
RDMA = "koordinator.sh/rdma"


def profile_of(devices: list[dict[str, Any]], table: str | None = None) -> Profile:
    cluster = Cluster()
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": NODE, "uid": NODE}}))
    cluster.store(Device).apply(device(devices, annotations={} if table is None else {PARTITIONS: table}))
    return Profile(cluster)


def answers(profile: Profile, requests: dict[str, str], **more: Any) -> Status:
    """Call every point for a pod; return what Filter says, which is the same for one node and for all."""
    incoming, plugin, nodes = pod("a", requests, **more), profile.plugin, profile.cluster.nodes.all()
    state = CycleState()
    if "annotations" in more:
        state.write(SCHEDULING_HINT, SchedulingHintState(extensions={"DeviceShare": {}}))
    _, status = plugin.pre_filter(state, incoming, nodes)
    if not status.is_success:
        return status
    status = plugin.filter(state, incoming, profile.node())
    verdict = plugin.filter_nodes(state, incoming, nodes)
    assert verdict.status(0) == status
    plugin.pod_topology_hints(state, incoming, profile.node())
    plugin.numa_hint_groups(state, incoming, nodes)
    try:
        assert plugin.score_nodes(state, incoming, nodes).tolist() == [
            plugin.score(state, incoming, profile.node())
        ]
    except ScoreError:
        assert not status.is_success
    plugin.reserve(state, incoming, NODE)
    plugin.unreserve(state, incoming, NODE)
    plugin.endpoints()["nodeDeviceSummaries"]()
    return status


HOSTILE = {
    "minors that no set has": [gpu(minor) for minor in (2**31 - 1, -1, -(2**31), 2**62, 64, 63, 32)],
    "minors that are listed twice": [gpu(0), gpu(0), gpu(0, health=False), gpu(1), gpu(1)],
    "no minors": [gpu(0) | {"minor": None}, gpu(1) | {"minor": None}],
    "types that are unknown": [gpu(0, type="xpu"), gpu(1, type=""), gpu(0)],
    "no devices": [],
    "nothing of devices": [{} for _ in range(20)],
    "NUMA nodes that no mask has": [
        gpu(minor, topology={"nodeID": node}) for minor, node in enumerate((64, -2, 2**62, -(2**63)))
    ],
    "the last NUMA node that a mask has": [
        gpu(minor, topology={"nodeID": node}) for minor, node in enumerate((0, 62, 63))
    ],
    "a NUMA node for each of many devices": [
        gpu(minor, topology={"nodeID": minor}) for minor in range(MOST_DEVICES)
    ],
    "more GPUs than sets have, on two NUMA nodes": [
        gpu(minor, topology={"nodeID": minor % 2}) for minor in range(80)
    ],
    "virtual functions twice": [
        card(
            0, vfGroups=[{"vfs": [{"busID": "x"}, {"busID": "x"}, {"minor": -5}]}, {"vfs": [{"busID": "x"}]}]
        )
    ],
}
AMOUNTS = (
    "-1", "-9223372036854775808", "9223372036854775807", "9223372036854775808", "1e30", "1e3999",
    "0", "1n", "8Ei", "x", "",
)  # fmt: skip
HOSTILE |= {
    f"amounts of {amount}": [
        gpu(0, resources=dict.fromkeys((CORE, RATIO, MEMORY), amount)),
        card(0, resources={RDMA: amount}),
    ]
    for amount in AMOUNTS
}
HUGE = str(2**62)
REQUESTS = (
    {PERCENT: "100"},
    {PERCENT: "50"},
    {MEMORY: "8Gi"},
    {PERCENT: "200", RDMA: "100"},
    {RDMA: "1"},
    {"nvidia.com/gpu": HUGE},
    {"nvidia.com/gpu": str(2**63 - 1)},
    {PERCENT: str(2**62 // 100 * 100)},
    {MEMORY: HUGE},
    {RDMA: str(2**62 // 100 * 100)},
    {"koordinator.sh/gpu.shared": HUGE, MEMORY: "8Gi"},
    {PERCENT: "-100"},
)


@pytest.mark.parametrize("devices", HOSTILE.values(), ids=HOSTILE.keys())
def test_every_point_answers_whatever_a_device_lists(devices: list[dict[str, Any]]) -> None:
    profile = profile_of(devices)
    for requests in REQUESTS:
        answers(profile, requests)
        answers(profile, requests, annotations=designated({"gpu": [{"minor": 0}], "rdma": []}))


TABLES = {
    "partitions of each other's GPUs": '{"2":[{"minors":[0,1]},{"minors":[1,0]}],"1":[{"minors":[1]}]}',
    "GPUs twice": '{"2":[{"minors":[0,0]}]}',
    "GPUs that no node has": '{"-1":[{"minors":[0]}],"0":[{"minors":[]}],"1":[{"minors":[]}],'
    '"2":[{"minors":[-1,99999999999]}]}',
    "scores at the limits": '{"2":[{"minors":[0,1],"allocationScore":9223372036854775807},'
    '{"minors":[2,3],"allocationScore":-9223372036854775808,"ringBusBandwidth":"1e3999"}]}',
    "a partition of too many GPUs": json.dumps({"2": [{"minors": list(range(65))}]}),
    "too many partitions": json.dumps({"1": [{"minors": [0]}] * 2000}),
    "brackets": "[" * 100_000,
    "another shape": '{"1":{"minors":[1]}}',
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_every_point_answers_whatever_a_partition_table_says(table: str) -> None:
    profile = profile_of([gpu(minor) for minor in range(8)], table)
    for requests in REQUESTS:
        answers(profile, requests)
        answers(profile, requests, labels={"node.koordinator.sh/gpu-partition-policy": "Honor"})


@pytest.mark.parametrize("requests", REQUESTS[5:], ids=str)
def test_a_request_that_no_node_can_give_is_refused(requests: dict[str, str]) -> None:
    assert not answers(profile_of([gpu(0), gpu(1), card(0)]), requests).is_success


@pytest.mark.parametrize("amount", ["-1", "-9223372036854775808", "0", "x", ""])
def test_a_gpu_without_an_amount_is_not_allocated(amount: str) -> None:
    profile = profile_of([gpu(0, resources=dict.fromkeys((CORE, RATIO, MEMORY), amount))])
    assert not answers(profile, {PERCENT: "100"}).is_success


def test_a_device_that_lists_more_than_a_machine_has_is_as_one_that_lists_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    profile = profile_of([gpu(0)])
    assert answers(profile, {PERCENT: "100"}).is_success
    for many in (
        [gpu(minor) for minor in range(MOST_DEVICES + 1)],
        [{"type": f"t{number}"} for number in range(MOST_DEVICES + 1)],
        [gpu(0), card(0, vfGroups=[{"vfs": [{"busID": str(each)} for each in range(MOST_FUNCTIONS + 1)]}])],
    ):
        caplog.clear()
        profile.cluster.store(Device).apply(device(many))
        assert answers(profile, {PERCENT: "100"}).reasons == ("Insufficient gpu devices",)
        assert "none of them is allocated" in caplog.text
        assert totals(profile) == {"gpu": {}}
    profile.cluster.store(Device).discard(NODE)
    assert totals(profile) == {"gpu": {}}
    profile.cluster.store(Device).apply(device([gpu(0)]))
    assert answers(profile, {PERCENT: "100"}).is_success


def totals(profile: Profile) -> Any:
    found = profile.plugin.ledger.node(NODE)
    assert found is not None
    return found.total


def test_a_device_listed_twice_is_given_away_once() -> None:
    profile = profile_of([gpu(0), gpu(0), gpu(1, health=False), gpu(1, health=False)])
    assert minors(profile.place(pod("a", {PERCENT: "100"}))) == [0]
    assert not answers(profile, {PERCENT: "50"}).is_success


def test_a_virtual_function_listed_twice_is_given_away_once() -> None:
    hint = {"annotations": {"scheduling.koordinator.sh/device-allocate-hint": '{"rdma":{"vfSelector":{}}}'}}
    profile = profile_of([card(0, vfGroups=[{"vfs": [{"busID": "x"}, {"busID": "x"}]}])])
    (first,) = profile.place(pod("a", {RDMA: "1"}, **hint))["rdma"]
    assert [each.bus_id for each in first.virtual_functions] == ["x"]
    _, status = profile.reserve(pod("b", {RDMA: "1"}, **hint))
    assert status.reasons == ("Insufficient rdma devices",)


def test_what_is_left_of_gpus_is_between_none_and_all_of_each() -> None:
    profile = profile_of([gpu(0, resources={CORE: "1e30", MEMORY: "1e30"}), gpu(1, resources={CORE: "-5"})])
    state, _ = profile.prepared(pod("a", {PERCENT: "50"}))
    columns = state.read(GPUS)
    assert columns is not None
    assert columns.free[0].tolist()[:2] == [1000, 0]


def designated(allocations: Any) -> dict[str, str]:
    return {"scheduling.koordinator.sh/device-allocated": json.dumps(allocations)}
