"""Reservations of GPUs, and pods that use them, beside a stock scheduler."""

from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from tests.integration.devices.stage import GPUS, DeviceStage, devices, uses

OWNER = "uses-reserved-gpus"
OWNS = {OWNER: "true"}


def gpu(percent: int) -> dict[str, str]:
    return {extension.GPU: str(percent)}


def completed(percent: int) -> dict[str, str]:
    """Return the same as the mutating webhook writes it."""
    amount = str(percent)
    return {extension.GPU_CORE: amount, extension.GPU_MEMORY_RATIO: amount, extension.GPU_SHARED: "1"}


async def assert_within(stage: DeviceStage, name: str, *pods: Pod) -> None:
    """The Reservation says who uses it and how much, and its pods have no devices but its own."""
    found = await stage.owned_by(name, *pods)
    requested = sum(int(each.spec.containers[0].resources.requests[extension.GPU]) for each in pods)
    assert found.spec.template is not None
    assert found.status.allocatable == found.spec.template.spec.containers[0].resources.requests
    assert found.status.allocated == gpu(requested)
    reserved = devices(found)
    for pod in pods:
        given = devices(pod)
        assert given
        for minor, amounts in given.items():
            assert all(amount <= reserved[minor][resource] for resource, amount in amounts.items())


async def test_pods_that_match_a_reservation_fill_the_node(stage: DeviceStage) -> None:
    reservation = await stage.hold("half", gpu(50), OWNER, allocateOnce=False)
    reserved = {extension.GPU_CORE: 50, extension.GPU_MEMORY: 8 << 30, extension.GPU_MEMORY_RATIO: 50}
    assert devices(reservation) == {0: reserved}
    names = [f"pod-{number}" for number in range(100 * GPUS // 50)]
    for name in names:
        await stage.create(name, gpu(50), OWNS)
    for name in names:
        await stage.node_of(name)
    pods = [await stage.pod(name) for name in names]
    owners = [pod for pod in pods if uses(pod)]
    assert devices(reservation) in map(devices, owners)
    assert sorted(minor for pod in pods for minor in devices(pod)) == [0, 0, 1, 1]
    await stage.owned_by("half", *owners)


@pytest.mark.parametrize("policy", [{}, {"allocatePolicy": "Aligned"}, {"allocatePolicy": "Restricted"}])
async def test_pods_with_completed_requests_use_reserved_gpus(
    stage: DeviceStage, policy: dict[str, Any]
) -> None:
    reservation = await stage.hold("half", completed(50), OWNER, allocateOnce=False, **policy)
    owner = await stage.run("owner", completed(50), OWNS)
    assert uses(owner) == "half"
    assert devices(owner) == devices(reservation)
    found = await stage.owned_by("half", owner)
    assert found.status.allocatable == found.status.allocated == completed(50)


async def test_pods_that_match_no_reservation_leave_what_is_reserved_alone(stage: DeviceStage) -> None:
    reservation = await stage.hold("half", gpu(50), OWNER, allocateOnce=False)
    owner = await stage.run("owner", gpu(50), OWNS)
    assert uses(owner) == "half"
    assert devices(owner) == devices(reservation)
    others = [await stage.run(f"other-{number}", gpu(50)) for number in range(100 * GPUS // 50 - 1)]
    assert not any(uses(pod) for pod in others)
    await assert_within(stage, "half", owner)


async def test_a_restricted_reservation_gives_no_more_than_it_has(stage: DeviceStage) -> None:
    reservation = await stage.hold("half", gpu(50), OWNER, allocateOnce=False, allocatePolicy="Restricted")
    owner = await stage.run("owner", gpu(50), OWNS)
    assert uses(owner) == "half"
    assert devices(owner) == devices(reservation)
    for number in range(100 * GPUS // 50 - 1):
        assert not uses(await stage.run(f"beside-{number}", gpu(50), OWNS))
    await stage.create("last", gpu(50), OWNS)
    await stage.refusal("last")
    await assert_within(stage, "half", owner)


async def test_shares_of_a_restricted_reservation_do_not_span_its_gpus(stage: DeviceStage) -> None:
    await stage.hold("both", gpu(200), OWNER, allocateOnce=False, allocatePolicy="Restricted")
    owners = [await stage.run(f"owner-{number}", gpu(60), OWNS) for number in range(2)]
    assert [uses(pod) for pod in owners] == ["both", "both"]
    assert {minor for pod in owners for minor in devices(pod)} == {0, 1}
    await stage.create("third", gpu(60), OWNS)
    await stage.refusal("third")
    await assert_within(stage, "both", *owners)


async def test_pods_use_an_aligned_reservation_and_more_of_its_gpu(stage: DeviceStage) -> None:
    reservation = await stage.hold("half", gpu(50), OWNER, allocateOnce=False, allocatePolicy="Aligned")
    pods = [await stage.run(f"pod-{number}", gpu(40), OWNS) for number in range(3)]
    assert [uses(pod) for pod in pods[:2]] == ["half", "half"]
    assert [set(devices(pod)) for pod in pods[:2]] == [set(devices(reservation))] * 2
    assert sorted(minor for pod in pods for minor in devices(pod)) == [0, 0, 1]
    await stage.owned_by("half", *(pod for pod in pods if uses(pod)))


async def test_pods_wait_where_reservation_and_gpu_have_too_little_together(stage: DeviceStage) -> None:
    await stage.hold("half", gpu(50), OWNER, allocateOnce=False, allocatePolicy="Aligned")
    others = [await stage.run(f"other-{number}", gpu(40)) for number in range(3)]
    assert not any(uses(pod) for pod in others)
    owner = await stage.run("owner", gpu(40), OWNS)
    assert uses(owner) == "half"
    await stage.create("second", gpu(40), OWNS)
    await stage.refusal("second")
    await assert_within(stage, "half", owner)


async def test_pods_use_one_aligned_reservation_each(stage: DeviceStage) -> None:
    names = [f"half-{number}" for number in range(4)]
    reserved: list[Reservation] = [
        await stage.hold(name, gpu(50), OWNER, allocateOnce=False, allocatePolicy="Aligned") for name in names
    ]
    assert sorted(minor for each in reserved for minor in devices(each)) == [0, 0, 1, 1]
    owners = [await stage.run(f"owner-{number}", gpu(30), OWNS) for number in range(4)]
    assert sorted(map(uses, owners)) == names
    await stage.create("fifth", gpu(30), OWNS)
    await stage.refusal("fifth")
    for owner in owners:
        await assert_within(stage, uses(owner), owner)
