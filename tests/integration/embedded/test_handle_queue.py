"""`handle.queue` in the embedded scheduler: plugins have pods tried again that they refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.interface import Filter, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.registry import installed
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import PATIENCE


class Barrier(Plugin, Filter):
    """Refuses pods until a test says otherwise; nothing in the cluster shows that."""

    name = "Barrier"
    asked = 0
    is_open = False

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.asked += 1
        return SUCCESS if self.is_open else Status.unschedulable("closed")


@asynccontextmanager
async def scheduling() -> AsyncIterator[tuple[Client, Scheduler, Barrier]]:
    """Run the embedded scheduler with the plugin on one node."""
    server = ApiServer(controllers=False)
    await server.load()
    client = Client(ServerChannel(server))
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    await client.create_raw(resource_of(Node), "", {**node, "status": {"allocatable": amounts}})
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Barrier"}]}}}],
    }
    scheduler = Scheduler(config.read(document), client, classes=installed().including(Barrier))
    await scheduler.start()
    framework = scheduler._profiles["default-scheduler"]
    plugin = next(each for each in framework.plugins if isinstance(each, Barrier))
    try:
        yield client, scheduler, plugin
    finally:
        await scheduler.stop()


async def refused(client: Client, scheduler: Scheduler, plugin: Barrier) -> Pod:
    """Create a pod and wait until it is refused and waits for something to change."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    await client.create_raw(resource_of(Pod), "default", pod)
    found = await client.get(Pod, "default", "p")
    async with asyncio.timeout(PATIENCE):
        while scheduler.queue.pool_of(found.metadata.uid) != "unschedulable":
            await asyncio.sleep(0.01)
    assert plugin.asked
    return found


async def bound(client: Client) -> str:
    async with asyncio.timeout(PATIENCE):
        while not (node := (await client.get(Pod, "default", "p")).spec.node_name):
            await asyncio.sleep(0.01)
    return node


@pytest.mark.parametrize("all_pods", [False, True])
async def test_an_unschedulable_pod_is_retried_when_its_plugin_requests_it(all_pods: bool) -> None:
    async with scheduling() as (client, scheduler, plugin):
        pod = await refused(client, scheduler, plugin)
        before, plugin.is_open = plugin.asked, True
        await asyncio.sleep(0.1)
        assert plugin.asked == before
        if all_pods:
            node = plugin.handle.cluster.store(Node).get("", "n1")
            plugin.handle.queue.move_all(ClusterEvent(Node, node, node))
        else:
            plugin.handle.queue.activate([pod])
        assert await bound(client) == "n1"
