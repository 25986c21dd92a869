"""Plans of FindOneNode in the embedded scheduler: a job goes where its first attempt planned it."""

import asyncio
from collections.abc import Iterator

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.registry import installed
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import PATIENCE
from tests.unit.scheduling.planner import JOB, Planner

PODS = ("p0", "p1", "p2")


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    Planner.reset()
    yield
    Planner.reset()


@pytest.fixture
async def client() -> Client:
    """An API server with three nodes and the pods of a job."""
    server = ApiServer(controllers=False)
    await server.load()
    client = Client(ServerChannel(server))
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    for name in ("a", "b", "c"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await client.create_raw(resource_of(Node), "", {**node, "status": {"allocatable": amounts}})
    for name in PODS:
        meta = {"name": name, "labels": {JOB: "j"}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await client.create_raw(resource_of(Pod), "default", pod)
    return client


async def placed(client: Client, *names: str) -> list[str]:
    """Wait until pods are bound and return their nodes."""
    async with asyncio.timeout(PATIENCE):
        while True:
            nodes = [(await client.get(Pod, "default", name)).spec.node_name for name in names]
            if all(nodes):
                return nodes
            await asyncio.sleep(0.01)


def scheduler(client: Client) -> Scheduler:
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podInitialBackoffSeconds": 1,
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Planner"}]}}}],
    }
    return Scheduler(config.read(document), client, classes=installed().including(Planner))


async def test_a_job_is_placed_by_one_plan(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planner, "order", ("c", "a", "b"))
    running = scheduler(client)
    await running.start()
    try:
        assert await placed(client, *PODS) == ["c", "a", "b"]
        assert len(Planner.planned_for) == 1
        async with asyncio.timeout(PATIENCE):
            while len(running._plans):  # the binding is seen here before its call has ended there
                await asyncio.sleep(0.01)
    finally:
        await running.stop()


async def test_the_rest_of_a_job_is_planned_anew_after_a_failure(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Planner, "order", ("c", "a", "b"))
    monkeypatch.setattr(Planner, "fails", {"p1"})
    running = scheduler(client)
    await running.start()
    try:
        assert (await placed(client, "p0", "p2"))[0] == "c"
        monkeypatch.setattr(Planner, "fails", set())
        running._handles[0].queue.activate([await client.get(Pod, "default", "p1")])
        await placed(client, "p1")
        assert Planner.planned_for[:2] == ["p0", "p2"]
        assert len(running._plans) == 0
    finally:
        await running.stop()
