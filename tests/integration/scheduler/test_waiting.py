"""Pods that cannot be placed yet: what they are told, and what brings them back."""

import asyncio
from typing import Any

from koordpy.api.core import Pod
from koordpy.cluster.client import PatchType
from tests.integration.scheduler.extender import Extender, keep_all
from tests.integration.scheduler.stage import NAMESPACE, Stage, eventually


async def test_without_nodes_a_pod_waits_for_one(stage: Stage) -> None:
    await stage.start()
    await stage.add_pod("p")
    assert await stage.refusal("p") == "no nodes available to schedule pods"
    await stage.add_node("n1")
    assert await stage.node_of("p") == "n1"


async def test_an_unschedulable_pod_has_the_reason_in_condition_and_event(stage: Stage) -> None:
    await stage.add_node("small", cpu="1")
    await stage.start()
    await stage.add_pod("p", cpu="4")
    message = await stage.refusal("p")
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    events = await stage.all_events("FailedScheduling")
    assert events[0].note == message


async def test_an_unschedulable_pod_is_bound_when_a_node_appears(stage: Stage) -> None:
    await stage.add_node("small", cpu="1")
    await stage.start()
    await stage.add_pod("p", cpu="4")
    await stage.refusal("p")
    await stage.add_node("big", cpu="8")
    assert await stage.node_of("p") == "big"


async def test_an_unschedulable_pod_is_bound_when_another_one_leaves(stage: Stage) -> None:
    await stage.add_node("n1", cpu="1")
    await stage.start()
    await stage.add_pod("first", cpu="1")
    await stage.node_of("first")
    await stage.add_pod("second", cpu="1")
    await stage.refusal("second")
    await stage.delete_pod("first")
    assert await stage.node_of("second") == "n1"


async def test_a_gated_pod_waits_until_its_gates_are_gone(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.add_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    await stage.add_pod("free")
    await stage.node_of("free")
    assert not (await stage.pod("gated")).spec.node_name
    await stage.client.patch(Pod, NAMESPACE, "gated", {"spec": {"schedulingGates": None}}, PatchType.MERGE)
    assert await stage.node_of("gated") == "n1"


async def test_more_important_pods_go_first(stage: Stage) -> None:
    await stage.add_priority("high", 1000)
    await stage.add_priority("low", 10)
    await stage.add_node("n1")
    await stage.add_node("n2")
    for name, priority in (("a", None), ("b", "low"), ("c", "high")):
        spec: dict[str, Any] = {"priorityClassName": priority} if priority else {}
        await stage.add_pod(name, **spec)
    async with Extender(filter=keep_all) as extender:
        await stage.start(extender.entry("filter"))
        await stage.all_bound(3)
        assert [call["Pod"]["metadata"]["name"] for call in extender.asked("filter")] == ["c", "b", "a"]


async def test_a_pod_deleted_during_its_attempt_is_forgotten(stage: Stage) -> None:
    await stage.add_node("n1", cpu="1")
    await stage.add_node("n2", cpu="1")
    hold = asyncio.Event()

    async def bind(_: dict) -> dict:
        await hold.wait()
        return {"Error": "no such pod"}

    async with Extender(bind=bind) as extender:
        await stage.start(extender.entry("bind"))
        await stage.add_pod("gone", cpu="1")
        await eventually(lambda: len(extender.asked("bind")) == 1)
        await stage.delete_pod("gone")
        hold.set()
        extender.answers["bind"] = stage.bind
        await stage.add_pod("a", cpu="1")
        await stage.add_pod("b", cpu="1")
        await stage.all_bound(2)
