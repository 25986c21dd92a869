"""Plugins that choose the GPU of a pod that shares one: who is asked, and what becomes of the answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import of
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.interface import Plugin, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import GPU_REQUEST, GPUS, ChooseGPU, GPURequest
from koordpy.testing.scheduling import Placed, Scheduling
from koordpy_plugins.scheduling.deviceshare.plugin import DeviceShare
from koordpy_plugins.scheduling.reservation.plugin import Reservation as ReservationPlugin

from ..clusters import PERCENT, hint, minors, pod
from ..nodes import card, device, gpu

FOUR = [gpu(number, topology=None) for number in range(4)]


class Chooses(Plugin, Score, ChooseGPU):
    """Chooses what a test says, by pod name; notes what it sees."""

    name = "Chooses"
    answers: ClassVar[dict[str, int | None]] = {}
    seen: ClassVar[list[tuple[list[int], GPURequest | None]]] = []

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        return np.zeros(len(nodes), np.int64)

    def choose_gpu(self, state: CycleState, pod: Pod, row: int) -> int | None:
        columns = state.read(GPUS)
        assert columns is not None
        self.seen.append((columns.free[row].tolist(), state.read(GPU_REQUEST)))
        return self.answers.get(pod.metadata.name)


class ChoosesToo(Chooses):
    """Another one."""

    name = "ChoosesToo"
    answers: ClassVar[dict[str, int | None]] = {}
    seen: ClassVar[list[tuple[list[int], GPURequest | None]]] = []


class Raises(Chooses):
    """Fails."""

    name = "Raises"

    def choose_gpu(self, state: CycleState, pod: Pod, row: int) -> int | None:
        raise LookupError("no idea")


@pytest.fixture(autouse=True)
def _forget() -> None:
    for each in (Chooses, ChoosesToo):
        each.answers.clear()
        each.seen.clear()


def stage(
    *plugins: type[Plugin],
    devices: Sequence[Mapping[str, Any]] = FOUR,
    **more: Any,
) -> Scheduling:
    cluster = Cluster()
    roomy = {"cpu": "32", "pods": "110", "koordinator.sh/gpu": "400"}
    node = {"metadata": {"name": "n", "uid": "n"}, "status": {"allocatable": roomy}}
    cluster.store(Node).apply(decode(Node, node))
    cluster.store(Device).apply(device(devices))
    return Scheduling(cluster, *plugins, **more)


def got(placed: Placed) -> list[int]:
    assert placed.node == "n", placed.status
    return minors(of(placed.annotations))


async def remarks(scheduling: Scheduling, wanted: Pod) -> list[str]:
    """What plugins remark about a placement that is not bound."""
    framework = scheduling.framework
    state = framework.new_state()
    framework.find_feasible(state, wanted, scheduling.cluster.nodes.all())
    with Placement(framework, state, wanted, "n") as placement:
        assert placement.reserve().is_success
        assert (await placement.pre_bind()).is_success
        return placement.binding.remarks


async def test_a_pod_gets_the_gpu_that_a_plugin_chooses() -> None:
    scheduling = stage(DeviceShare, Chooses)
    Chooses.answers.update(a=2, b=2, c=3)
    placed = [got(await scheduling.place(pod(name, {PERCENT: "40"}))) for name in "abc"]
    assert placed == [[2], [2], [3]]


async def test_the_chooser_sees_what_is_left_and_what_is_requested() -> None:
    scheduling = stage(DeviceShare, Chooses)
    Chooses.answers.update(a=1)
    for name in "ab":
        await scheduling.place(pod(name, {PERCENT: "30", "cpu": "2"}))
    request = GPURequest(2000, 1, 300)
    assert Chooses.seen == [([1000] * 4, request), ([1000, 700, 1000, 1000], request)]


async def test_the_choice_holds_where_the_places_of_gpus_are_known() -> None:
    scheduling = stage(DeviceShare, Chooses, devices=[gpu(minor) for minor in range(8)])
    Chooses.answers.update(a=6, b=3)
    assert [got(await scheduling.place(pod(name, {PERCENT: "50"}))) for name in "ab"] == [[6], [3]]


@pytest.mark.parametrize("choice", [0, 7, -1, 99])
async def test_a_gpu_that_does_not_suffice_is_replaced(choice: int) -> None:
    scheduling = stage(DeviceShare, Chooses)
    Chooses.answers.update(a=0, b=choice)
    assert got(await scheduling.place(pod("a", {PERCENT: "80"}))) == [0]
    assert got(await scheduling.place(pod("b", {PERCENT: "40"}))) == [1]


async def test_without_an_answer_the_next_plugin_is_asked_and_then_none() -> None:
    scheduling = stage(DeviceShare, Chooses, ChoosesToo)
    ChoosesToo.answers.update(a=3)
    assert got(await scheduling.place(pod("a", {PERCENT: "40"}))) == [3]
    assert got(await scheduling.place(pod("b", {PERCENT: "40"}))) == [0]
    assert len(Chooses.seen) == len(ChoosesToo.seen) == 2


async def test_the_plugin_with_the_largest_weight_is_asked_first() -> None:
    scheduling = stage(DeviceShare, Chooses, ChoosesToo, weights={"ChoosesToo": 2})
    Chooses.answers.update(a=1)
    ChoosesToo.answers.update(a=2)
    assert got(await scheduling.place(pod("a", {PERCENT: "40"}))) == [2]
    assert not Chooses.seen


@pytest.mark.parametrize("requests", [{PERCENT: "100"}, {"nvidia.com/gpu": "2"}, {"cpu": "1"}])
async def test_only_for_a_pod_that_shares_a_gpu_is_a_plugin_asked(requests: Mapping[str, str]) -> None:
    scheduling = stage(DeviceShare, Chooses)
    await scheduling.place(pod("a", requests))
    assert not Chooses.seen


async def test_hints_and_recorded_allocations_come_first() -> None:
    scheduling = stage(
        DeviceShare, Chooses, devices=[gpu(m, topology=None, labels={"of": str(m)}) for m in range(4)]
    )
    Chooses.answers.update(a=3)
    selector = hint(gpu={"selector": {"matchLabels": {"of": "2"}}})
    assert got(await scheduling.place(pod("a", {PERCENT: "40"}, **selector))) == [2]
    assert not Chooses.seen


async def test_joint_allocations_come_first() -> None:
    scheduling = stage(DeviceShare, Chooses, devices=[gpu(0), gpu(1), card(0)])
    joint = {"scheduling.koordinator.sh/device-joint-allocate": json.dumps({"deviceTypes": ["gpu", "rdma"]})}
    wanted = pod("a", {PERCENT: "40", "koordinator.sh/rdma": "10"}, annotations=joint)
    Chooses.answers.update(a=1)
    await scheduling.place(wanted)
    assert not Chooses.seen


async def test_other_devices_are_chosen_as_ever() -> None:
    scheduling = stage(DeviceShare, Chooses, devices=[gpu(0), gpu(1), card(0), card(1)])
    Chooses.answers.update(a=1)
    placed = await scheduling.place(pod("a", {PERCENT: "40", "koordinator.sh/rdma": "10"}))
    assert got(placed) == [1]
    assert minors(of(placed.annotations), "rdma") == [0]


async def test_what_a_reservation_holds_for_the_pod_comes_first() -> None:
    scheduling = stage(ReservationPlugin, DeviceShare, Chooses)
    held = {
        "gpu": [
            {
                "minor": 2,
                "resources": {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"},
            }
        ]
    }
    amounts = {"koordinator.sh/gpu": "50"}
    document = {
        "metadata": {
            "name": "r",
            "uid": "r",
            "annotations": {"scheduling.koordinator.sh/device-allocated": json.dumps(held)},
        },
        "spec": {
            "ttl": "1h",
            "owners": [{"labelSelector": {"matchLabels": {"app": "a"}}}],
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": amounts}}]}},
        },
        "status": {"phase": "Available", "nodeName": "n", "allocatable": amounts},
    }
    scheduling.cluster.store(Reservation).apply(decode(Reservation, document))
    Chooses.answers.update(a=3, b=3)
    assert got(await scheduling.place(pod("a", {PERCENT: "40"}, labels={"app": "a"}))) == [2]
    assert not Chooses.seen
    assert got(await scheduling.place(pod("b", {PERCENT: "40"}))) == [3]


async def test_a_plugin_that_raises_fails_the_attempt_by_its_name() -> None:
    placed = await stage(DeviceShare, Raises).place(pod("a", {PERCENT: "40"}))
    assert "Raises: choosing a GPU: LookupError: no idea" in placed.status.message


async def test_the_decision_says_who_chose() -> None:
    scheduling = stage(DeviceShare, Chooses)
    Chooses.answers.update(a=2, b=9)
    assert await remarks(scheduling, pod("a", {PERCENT: "40"})) == ["Chooses chose GPU 2"]
    assert await remarks(scheduling, pod("b", {PERCENT: "40"})) == [
        "DeviceShare chose GPU 0: GPU 9, the choice of Chooses, does not suffice"
    ]
    assert await remarks(scheduling, pod("c", {PERCENT: "40"})) == []


def test_every_pod_shows_what_it_requests() -> None:
    framework = stage(DeviceShare, Chooses).framework
    nodes = framework.handle.nodes.all()
    for requests, expected in (
        ({"cpu": "2"}, GPURequest(2000)),
        ({"cpu": "2", PERCENT: "200"}, GPURequest(2000, 2, 1000)),
        ({"cpu": "2", "koordinator.sh/gpu-memory": "4Gi"}, GPURequest(2000, 1, 250)),
    ):
        state = framework.new_state()
        framework.find_feasible(state, pod("a", requests), nodes)
        columns = state.read(GPUS)
        assert columns is not None
        assert columns.free[nodes.rows].tolist() == [[1000] * 4]
        assert state.read(GPU_REQUEST) == expected


def test_bytes_of_gpus_that_differ_are_no_request() -> None:
    small = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    devices = [gpu(0), gpu(1, resources=small | {"koordinator.sh/gpu-memory": "8Gi"})]
    framework = stage(DeviceShare, Chooses, devices=devices).framework
    state = framework.new_state()
    state.write(GPU_REQUEST, GPURequest(1))
    framework.find_feasible(
        state, pod("a", {"koordinator.sh/gpu-memory": "4Gi"}), framework.handle.nodes.all()
    )
    assert state.read(GPUS) is not None
    assert state.read(GPU_REQUEST) is None
