"""How victims are evicted: what is written, in which order, and what happens when it cannot be written."""

import asyncio
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy.scheduling.interface.status import Code
from koordpy.scheduling.preemption.executor import Executor
from tests.integration.scheduler.stage import Stage

PLUGIN = "DefaultPreemption"


class World:
    """A handle whose pod store holds what a test puts there, and the executor on it."""

    def __init__(self, client: Client | None) -> None:
        self.cluster = Cluster()
        self.handle = Handle(self.cluster, client=client)
        self.executor = Executor(PLUGIN, self.handle)
        self.activated: list[str] = []
        self.handle.queue.join(self)

    def activate(self, pod: Pod) -> None:
        self.activated.append(pod.metadata.name)

    def move_all(self, event: ClusterEvent) -> None:
        raise AssertionError("an eviction activates one pod")

    async def settled(self) -> None:
        while self.handle._tasks:
            await asyncio.sleep(0.01)


@pytest.fixture
async def victims(stage: Stage) -> list[Pod]:
    await stage.add_node("n1")
    for i in range(3):
        await stage.add_pod(f"v{i}", nodeName="n1", terminationGracePeriodSeconds=30)
    return [await stage.pod(f"v{i}") for i in range(3)]


@pytest.fixture
async def preemptor(stage: Stage) -> Pod:
    await stage.add_pod("p")
    return await stage.pod("p")


async def terminating(stage: Stage) -> list[str]:
    return sorted(p.metadata.name for p in await stage.pods() if p.metadata.deletion_timestamp)


async def test_victims_that_are_going_already_are_left_alone(
    stage: Stage, victims: list[Pod], preemptor: Pod
) -> None:
    world = World(stage.client)
    await stage.client.delete(Pod, "default", "v0")
    going = await stage.pod("v0")
    status = await world.executor.evict(preemptor, "n1", [going, victims[1]])
    assert status.is_success
    assert await terminating(stage) == ["v0", "v1"]
    assert (await stage.pod("v0")).status.conditions == going.status.conditions


async def test_a_victim_that_is_gone_already_is_no_failure(
    stage: Stage, victims: list[Pod], preemptor: Pod
) -> None:
    await stage.delete_pod("v0")
    assert (await World(stage.client).executor.evict(preemptor, "n1", victims)).is_success
    assert await terminating(stage) == ["v1", "v2"]


async def test_a_victim_that_waits_for_its_permit_is_rejected_and_stays(
    stage: Stage, victims: list[Pod], preemptor: Pod
) -> None:
    world = World(stage.client)
    waiting = world.handle.waiting_pods.add(victims[0], "n1", {"Gang": 60})
    assert (await world.executor.evict(preemptor, "n1", victims[:2])).is_success
    status = await waiting.outcome()
    assert (status.code, status.message, status.plugin) == (Code.UNSCHEDULABLE, "preempted", PLUGIN)
    assert await terminating(stage) == ["v1"]


async def test_a_victim_that_is_not_being_bound_yet_gives_back_its_node_and_stays(
    stage: Stage, victims: list[Pod], preemptor: Pod
) -> None:
    world = World(stage.client)
    asked: list[str] = []

    def gives_back(uid: str) -> bool:
        asked.append(uid)
        return uid == victims[0].metadata.uid

    world.handle.waiting_pods.on_preempt(gives_back)
    assert (await world.executor.evict(preemptor, "n1", victims[:2])).is_success
    assert asked == [victim.metadata.uid for victim in victims[:2]]
    assert await terminating(stage) == ["v1"]


async def test_evictions_beside_the_cycle_hold_the_pod_back_until_the_last_one_is_seen_to_go(
    stage: Stage, victims: list[Pod], preemptor: Pod
) -> None:
    world = World(stage.client)
    pods = world.cluster.store(Pod)
    for victim in victims:
        pods.apply(victim)
    uid = preemptor.metadata.uid
    assert not world.executor.is_running(uid)
    world.executor.evict_in_background(preemptor, "n1", victims)
    assert world.executor.is_running(uid)
    await world.settled()
    assert not world.executor.is_running(uid)
    assert await terminating(stage) == ["v0", "v1", "v2"]
    assert not world.activated


async def test_where_all_victims_are_going_nothing_is_under_way(stage: Stage, preemptor: Pod) -> None:
    await stage.add_pod("v", nodeName="n1", terminationGracePeriodSeconds=30)
    await stage.client.delete(Pod, "default", "v")
    world = World(stage.client)
    world.executor.evict_in_background(preemptor, "n1", [await stage.pod("v")])
    assert not world.executor.is_running(preemptor.metadata.uid)


async def test_a_pod_whose_victims_cannot_be_evicted_is_tried_again(
    victims: list[Pod], preemptor: Pod
) -> None:
    client = Client(Connection.to(Access("http://127.0.0.1:9")), attempts=1)
    world = World(client)
    try:
        status = await world.executor.evict(preemptor, "n1", victims)
        assert status.code is Code.ERROR
        world.executor.evict_in_background(preemptor, "n1", victims)
        await world.settled()
    finally:
        await client.close()
    assert world.activated == ["p"]
    assert not world.executor.is_running(preemptor.metadata.uid)


async def test_without_write_access_no_pod_is_evicted(victims: list[Pod], preemptor: Pod) -> None:
    with pytest.raises(RuntimeError, match="DefaultPreemption cannot evict"):
        await World(None).executor.evict(preemptor, "n1", victims)


async def test_a_pod_that_took_the_name_of_a_victim_is_no_victim(
    stage: Stage, victims: list[Pod], preemptor: Pod
) -> None:
    await stage.delete_pod("v0")
    fields: dict[str, Any] = {"nodeName": "n1"}
    await stage.add_pod("v0", **fields)
    status = await World(stage.client).executor.evict(preemptor, "n1", victims[:1])
    assert status.is_success
    assert await terminating(stage) == []
