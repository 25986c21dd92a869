"""Locks of nodes for the device plugins of vendors, written to an API server."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.quantity import parse
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.deviceshare.adapters.adapter import DevicePluginAdapter
from koordpy_plugins.scheduling.deviceshare.adapters.node_locks import NodeWriteError
from koordpy_plugins.scheduling.deviceshare.adapters.vendors import AdaptionError
from tests.eventually import becomes_true

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LOCKS = {"cambricon": "cambricon.com/dsmlu.lock", "metax": "hami.io/mutex.lock"}
SHARE = {"koordinator.sh/gpu-core": parse("30"), "koordinator.sh/gpu-memory": parse("1Gi")}
ALLOCATED = {"gpu": (DeviceAllocation(1, SHARE, id="GPU-1"),)}


class Stage:
    """An API server with a node of a vendor, and the adapter of a scheduler."""

    def __init__(self, client: Client, requests: list[str], refusals: dict[str, Fault]) -> None:
        self.client, self.requests, self.refusals = client, requests, refusals

    async def adapter(self, vendor: str, *, lock: str = "") -> DevicePluginAdapter:
        """Create the node, locked by a text if one is given; return the adapter of a process."""
        annotations = {LOCKS[vendor]: lock} if lock else {}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": annotations}}
        await self.client.create_raw(resource_of(Node), "", node)
        return self.process(vendor)

    def process(self, vendor: str) -> DevicePluginAdapter:
        """One more process that schedules onto the node."""
        cluster = Cluster()
        labels = {"node.koordinator.sh/gpu-vendor": vendor}
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n"}}))
        cluster.store(Device).apply(decode(Device, {"metadata": {"name": "n", "labels": labels}}))
        for name in ("holder", "first", "second"):
            cluster.store(Pod).apply(pod(name))
        return DevicePluginAdapter(Handle(cluster, client=self.client, clock=FakeClock(NOW)))

    async def annotations(self) -> dict[str, str]:
        return dict((await self.client.get(Node, "", "n")).metadata.annotations)


def pod(name: str) -> Pod:
    return decode(Pod, {"metadata": {"name": name, "namespace": "x", "uid": name}})


async def adapt(adapter: DevicePluginAdapter, name: str = "p") -> Binding:
    incoming = pod(name)
    binding = Binding(incoming, "n")
    await adapter.adapt(incoming.metadata, ALLOCATED, "n", binding)
    return binding


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    requests: list[str] = []
    refusals: dict[str, Fault] = {}

    def note(method: str, path: str) -> Fault | None:
        requests.append(method)
        return refusals.get(method)

    async with ApiServer(faults=note) as server:
        client = Client(Connection.to(Access(server.url)))
        try:
            yield Stage(client, requests, refusals)
        finally:
            await client.close()


@pytest.mark.parametrize(
    ("vendor", "told"),
    [
        (
            "cambricon",
            {"CAMBRICON_DSMLU_ASSIGHED": "false", "CAMBRICON_DSMLU_PROFILE": "1_30_4"},
        ),
        (
            "metax",
            {"metax-tech.com/gpu-devices-allocated": '[[{"uuid":"GPU-1","compute":30,"vRam":1024}]]'},
        ),
    ],
)
async def test_the_node_is_locked_for_the_pod_and_the_device_plugin_told(
    stage: Stage, vendor: str, told: dict[str, str]
) -> None:
    binding = await adapt(await stage.adapter(vendor))
    assert await stage.annotations() == {LOCKS[vendor]: "2026-03-01T12:00:00Z,x,p"}
    assert told.items() <= binding.annotations.items()
    assert stage.requests[1:3] == ["GET", "PATCH"]


@pytest.mark.parametrize("vendor", LOCKS)
async def test_a_node_that_a_pod_has_locked_stays_its(stage: Stage, vendor: str) -> None:
    held = f"{NOW - timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ},x,holder"
    adapter = await stage.adapter(vendor, lock=held)
    with pytest.raises(AdaptionError, match='failed to lock node: node "n" has been locked'):
        await adapt(adapter)
    assert await stage.annotations() == {LOCKS[vendor]: held}


@pytest.mark.parametrize("vendor", LOCKS)
@pytest.mark.parametrize(("minutes", "owner"), [(6, "holder"), (1, "gone")])
async def test_a_lock_that_was_left_behind_is_replaced(
    stage: Stage, vendor: str, minutes: int, owner: str
) -> None:
    left = f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ},x,{owner}"
    await adapt(await stage.adapter(vendor, lock=left))
    assert await stage.annotations() == {LOCKS[vendor]: "2026-03-01T12:00:00Z,x,p"}


async def test_a_node_that_another_process_locks_in_between_is_not_locked_again(stage: Stage) -> None:
    adapter = await stage.adapter("metax")
    released = asyncio.Event()
    stage.refusals["PATCH"] = Fault(held=released)
    adapting = asyncio.create_task(adapt(adapter))

    async def is_patching() -> bool:
        return "PATCH" in stage.requests

    await becomes_true(is_patching)
    del stage.refusals["PATCH"]
    other = "2026-03-01T12:00:00Z,x,other"
    await stage.client.patch(Node, "", "n", {"metadata": {"annotations": {LOCKS["metax"]: other}}})
    released.set()
    with pytest.raises(NodeWriteError, match='failed to patch node "n"'):
        await adapting
    assert await stage.annotations() == {LOCKS["metax"]: other}


async def test_pods_of_one_process_lock_a_node_one_after_another(stage: Stage) -> None:
    adapter = await stage.adapter("metax")
    results = await asyncio.gather(adapt(adapter, "first"), adapt(adapter, "second"), return_exceptions=True)
    refused = [result for result in results if isinstance(result, AdaptionError)]
    assert len(refused) == 1
    assert "has been locked" in str(refused[0])
    assert await stage.annotations() == {LOCKS["metax"]: "2026-03-01T12:00:00Z,x,first"}


async def test_a_write_that_fails_is_reported_with_the_node(stage: Stage) -> None:
    adapter = await stage.adapter("cambricon")
    stage.refusals["PATCH"] = Fault(status=403)
    with pytest.raises(NodeWriteError, match='failed to patch node "n"'):
        await adapt(adapter)
    assert await stage.annotations() == {}
