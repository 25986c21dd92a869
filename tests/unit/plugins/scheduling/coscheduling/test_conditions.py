"""What members are told that were not tried, because their gang failed before their turn."""

import asyncio

import pytest

from koordpy.api.core import Namespace, Pod
from koordpy.api.pre_enqueue_gates import gate_of
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.gates import chosen
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.profiles.registry import Place
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.scheduling.coscheduling import conditions

from .gang_world import GangWorld, member


@pytest.fixture
async def client() -> Client:
    server = ApiServer(controllers=False)
    await server.load()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}
    client = Client(ServerChannel(server))
    await client.create_raw(resource_of(Namespace), "", namespace)
    return client


async def create(world: GangWorld, client: Client, *pods: Pod) -> list[Pod]:
    found = []
    for pod in pods:
        meta = {"name": pod.metadata.name, "annotations": pod.metadata.annotations}
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "schedulingGates": [{"name": gate.name} for gate in pod.spec.scheduling_gates],
        }
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await client.create_raw(resource_of(Pod), "ns", document)
        found.append(await client.get(Pod, "ns", pod.metadata.name))
    world.put(*found)
    return found


async def told(world: GangWorld, client: Client, name: str) -> str:
    await asyncio.gather(*world.handle._tasks)
    conditions = (await client.get(Pod, "ns", name)).status.conditions
    return ", ".join(f"{each.reason}: {each.message}" for each in conditions if each.type == "PodScheduled")


async def test_pods_of_a_refused_job_are_told_why_before_they_are_tried(client: Client) -> None:
    world = GangWorld(client=client)
    gate = {"schedulingGates": [{"name": gate_of("Coscheduling")}]}
    pods = await create(world, client, member("a"), member("b"), member("gated", spec=gate))
    job = world.plugin.job_of(pods[0])
    assert job is not None
    world.plugin.planning(job)
    world.plugin.job_refused(job, Status.unresolvable("too large"))
    assert await told(world, client, "b") == "Unschedulable: 0/0 nodes are available: too large."
    assert "too large" not in await told(world, client, "gated")


async def test_pods_that_were_not_tried_in_a_round_are_told_why_it_failed(client: Client) -> None:
    world = GangWorld(Place.SCHEDULER, client)
    pods = await create(world, client, *(member(name) for name in "abc"))
    await fail(world, pods)
    assert "GangGroup" in await told(world, client, "c")
    assert await told(world, client, "b") == ""


async def test_no_condition_is_written_without_the_gate(client: Client) -> None:
    world = GangWorld(Place.SCHEDULER, client)
    world.handle.gates = chosen({**SPECS, conditions.GATE: conditions.SPEC}, {conditions.GATE: False})
    pods = await create(world, client, *(member(name) for name in "abc"))
    await fail(world, pods)
    assert await told(world, client, "c") == ""


async def fail(world: GangWorld, pods: list[Pod]) -> None:
    """Let the first pod fail, and the second one because of it; the third one is not tried."""
    framework = world.handle.framework
    nodes = world.cluster.nodes.all()
    for pod in pods[:2]:
        state = CycleState()
        outcome = framework.find_feasible(state, pod, nodes)
        world.plugin.rounds.after_post_filter(state, pod, outcome, Status.unschedulable())
        world.plugin.next_pod()
