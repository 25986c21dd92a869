"""Gangs where koordpy is the scheduler itself: rounds of whole groups in the embedded scheduler."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.gang.membership import LABEL_POD_GROUP
from koordpy.api.koordinator import PodGroup
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.scheduling.coscheduling.controller.controller import PodGroupController
from koordpy_plugins.scheduling.coscheduling.plugin import Coscheduling
from tests.eventually import PATIENCE

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
USED = [
    CRDS / f"{resource_of(type_).plural}.{resource_of(type_).group}.yaml" for type_ in (PodGroup, Reservation)
]


@pytest.fixture
async def client() -> Client:
    """An API server with two nodes that have room for two pods each."""
    server = ApiServer(controllers=False, crds=USED)
    await server.load()
    client = Client(ServerChannel(server))
    amounts = {"cpu": "2", "memory": "32Gi", "pods": "110"}
    for name in ("n1", "n2"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await client.create_raw(resource_of(Node), "", {**node, "status": {"allocatable": amounts}})
    return client


@pytest.fixture
async def scheduler(client: Client) -> AsyncIterator[Scheduler]:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podInitialBackoffSeconds": 1,
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}}],
    }
    running = Scheduler(config.read(document), client)
    await running.start()
    yield running
    await running.stop()


async def create_gang(client: Client, name: str, pods: int, minimum: int) -> list[str]:
    meta = {"namespace": "default", "name": name}
    resource = resource_of(PodGroup)
    group = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
    await client.create_raw(resource, "default", {**group, "spec": {"minMember": minimum}})
    names = [f"{name}-{number}" for number in range(pods)]
    for pod in names:
        requests = {"cpu": "1", "memory": "1Gi"}
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
        labels = {LABEL_POD_GROUP: name}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "labels": labels}}
        await client.create_raw(resource_of(Pod), "default", {**document, "spec": spec})
    return names


async def until(client: Client, names: list[str], holds: Callable[[list[Pod]], bool]) -> list[Pod]:
    async with asyncio.timeout(PATIENCE):
        while True:
            pods = [await client.get(Pod, "default", name) for name in names]
            if holds(pods):
                return pods
            await asyncio.sleep(0.01)


def all_bound(pods: list[Pod]) -> bool:
    return all(pod.spec.node_name for pod in pods)


def all_told(pods: list[Pod]) -> bool:
    told = ["".join(each.message for each in pod.status.conditions) for pod in pods]
    return sum("GangGroup" in message for message in told) == len(pods) - 1 and all(told)


def plugin_of(scheduler: Scheduler) -> Any:
    plugins = scheduler._profiles["default-scheduler"].plugins
    return next(plugin for plugin in plugins if isinstance(plugin, Coscheduling))


async def test_a_gang_that_fits_is_bound(client: Client, scheduler: Scheduler) -> None:
    names = await create_gang(client, "g", 4, 4)
    await until(client, names, all_bound)
    assert plugin_of(scheduler).holder.current is None


async def test_a_gang_that_does_not_fit_makes_way_for_one_that_does(
    client: Client, scheduler: Scheduler
) -> None:
    large = await create_gang(client, "large", 5, 5)
    await until(client, large, all_told)
    small = await create_gang(client, "small", 4, 4)
    await until(client, small, all_bound)
    pods = [await client.get(Pod, "default", name) for name in large]
    assert not any(pod.spec.node_name for pod in pods)
    assert len(plugin_of(scheduler).handle.waiting_pods) == 0


async def test_the_status_of_a_pod_group_follows_its_pods(client: Client, scheduler: Scheduler) -> None:
    (controller,) = plugin_of(scheduler).controllers()
    assert isinstance(controller, PodGroupController)
    running = asyncio.create_task(controller.run())
    try:
        names = await create_gang(client, "g", 2, 2)
        await until(client, names, all_bound)
        async with asyncio.timeout(PATIENCE):
            while True:
                group = await client.get(PodGroup, "default", "g")
                if group.status.phase == "Scheduled":
                    break
                await asyncio.sleep(0.01)
        assert (group.status.scheduled, group.status.running) == (2, 0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
