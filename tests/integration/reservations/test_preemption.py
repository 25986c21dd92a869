"""Whose place Reservations take, and how what they hold counts when others preempt."""

import contextlib
from typing import Any

import pytest

from koordpy.api.core import Pod, PriorityClass
from koordpy.api.reservation import AVAILABLE
from koordpy.api.scheme import resource_of
from koordpy.cluster.errors import AlreadyExists
from tests.integration.reservations.stage import Stage

PROTECTED = {"scheduling.koordinator.sh/disable-preemptible": "true"}
AT_ONCE: dict[str, Any] = {"terminationGracePeriodSeconds": 0}


@pytest.fixture(autouse=True)
async def high(stage: Stage) -> None:
    document = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    with contextlib.suppress(AlreadyExists):
        await stage.client.create_raw(resource_of(PriorityClass), "", document)


async def occupy(stage: Stage, node: str, count: int, cpu: str = "1", **labels: Any) -> None:
    """Put pods on a node, without a scheduler."""
    for i in range(count):
        await stage.add_pod(f"{node}-{i}", cpu, spec={"nodeName": node, **AT_ONCE}, **labels)


async def names(stage: Stage) -> set[str]:
    return {pod.metadata.name for pod in await stage.client.list_all(Pod)}


async def pending(stage: Stage, name: str) -> str:
    """Wait until a Reservation says why it is pending and return it."""

    async def message() -> str:
        return next((c.message for c in (await stage.reservation(name)).status.conditions), "")

    found: str = await stage.until(message, f"reservation {name} does not say why it is pending")
    return found


async def test_a_reservation_takes_the_place_of_pods_that_are_not_protected(stage: Stage) -> None:
    stage.args = {"enablePreemption": True}
    await stage.add_node("n1", cpu="4")
    await stage.add_node("n2", cpu="4")
    await occupy(stage, "n1", 4, **PROTECTED)
    await occupy(stage, "n2", 4)
    await stage.start()
    await stage.reserve("web", "3")
    assert (await stage.in_phase("web", AVAILABLE)).node_name == "n2"
    assert len([name for name in await names(stage) if name.startswith("n1-")]) == 4
    assert len([name for name in await names(stage) if name.startswith("n2-")]) == 1
    victims = await stage.until(lambda: stage.events("Preempted"), "there are no events")
    assert {event.regarding.name.partition("-")[0] for event in victims} == {"n2"}


async def test_a_reservation_waits_for_those_that_go_for_it(stage: Stage) -> None:
    stage.args = {"enablePreemption": True}
    for node in ("n1", "n2"):
        await stage.add_node(node, cpu="4")
        for i in range(2):
            await stage.add_pod(f"{node}-{i}", "2", spec={"nodeName": node})
    await stage.start()
    await stage.reserve("web", "4")

    async def going() -> list[str]:
        pods = await stage.client.list_all(Pod)
        return sorted(pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp)

    await stage.until(going, "no eviction")
    await stage.add_node("n3", cpu="1")  # another attempt is made
    text = "not eligible due to a terminating pod on the nominated node"

    async def told() -> bool:
        return text in await pending(stage, "web")

    await stage.until(told, "the reservation does not wait")
    victims = await going()
    assert victims in (["n1-0", "n1-1"], ["n2-0", "n2-1"])
    for name in victims:
        await stage.delete_pod(name)
    assert (await stage.in_phase("web", AVAILABLE)).node_name == victims[0][:2]


async def test_a_reservation_gets_a_reason_when_all_pods_are_protected(stage: Stage) -> None:
    stage.args = {"enablePreemption": True}
    await stage.add_node("n1", cpu="4")
    await occupy(stage, "n1", 4, **PROTECTED)
    await stage.start()
    await stage.reserve("web", "3")
    message = await pending(stage, "web")
    assert message.startswith(
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
    )
    assert "1 No preemption victims found for incoming pod." in message


async def test_reservations_wait_where_preemption_is_not_enabled(stage: Stage) -> None:
    await stage.add_node("n1", cpu="4")
    await occupy(stage, "n1", 4)
    await stage.start()
    await stage.reserve("web", "3")
    assert "preemption" not in await pending(stage, "web")
    assert len(await names(stage)) == 4


async def test_pods_that_preempt_make_room_beside_what_is_reserved(stage: Stage) -> None:
    await stage.add_node("n1", cpu="8")
    await stage.start()
    await stage.reserve("web", "2")
    await stage.in_phase("web", AVAILABLE)
    await occupy(stage, "n1", 4)
    await stage.add_pod("p", "5", spec={"priorityClassName": "high"})
    assert await stage.node_of("p") == "n1"  # kube-scheduler by itself would have evicted one pod of the four
    assert len(await names(stage)) == 2
    await stage.assert_nothing_is_booked_twice()


async def test_no_pod_is_evicted_where_reserved_resources_leave_too_few(stage: Stage) -> None:
    await stage.add_node("n1", cpu="8")
    await stage.start()
    await stage.reserve("web", "4")
    await stage.in_phase("web", AVAILABLE)
    await occupy(stage, "n1", 4)
    await stage.add_pod("p", "5", spec={"priorityClassName": "high"})
    assert "preemption: no candidate node for preemption" in await stage.refusal("p")
    assert len(await names(stage)) == 5
    await stage.add_node("n2", cpu="5")
    assert await stage.node_of("p") == "n2"
