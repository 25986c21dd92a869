"""Evictions through the API, on an API server of this process."""

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY

from koordpy.api.core import Event, Pod, PodDisruptionBudget
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.events import Recorder
from koordpy.descheduling.interface import EvictOptions
from koordpy.descheduling.pod_evictor import PodEvictor
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from koordpy.simulation.inprocess import ServerChannel

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Scene:
    """A running pod, and an evictor that writes events."""

    def __init__(self) -> None:
        clock = FakeClock(NOW)
        self.server = ApiServer(clock=clock)
        self.client = Client(ServerChannel(self.server), attempts=1)
        self.recorder = Recorder(self.client, clock=clock)
        self.evictor = PodEvictor(self.client, self.recorder)

    async def run(self, name: str = "p", **labels: str) -> Pod:
        """Create a running, ready pod on the node n1."""
        await self.server.load()
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        }
        await self.client.create_raw(resource_of(Pod), "default", document)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch_status(Pod, "default", name, {"status": status})
        return await self.client.get(Pod, "default", name)

    async def live(self) -> Pod:
        return await self.client.get(Pod, "default", "p")

    async def events(self) -> list[Event]:
        await self.recorder.flush()
        return await self.client.list_all(Event)


def counted(result: str, plugin: str) -> float:
    labels = {"result": result, "strategy": plugin, "namespace": "default", "node": "n1"}
    return REGISTRY.get_sample_value("descheduler_pods_evicted", labels) or 0.0


async def test_an_evicted_pod_is_counted_and_gets_an_event() -> None:
    it = Scene()
    pod = await it.run()
    before = counted("success", "Evicts")
    assert await it.evictor.evict(pod, EvictOptions(plugin_name="Evicts", reason="a hot node"))
    assert (await it.live()).metadata.deletion_timestamp
    assert counted("success", "Evicts") == before + 1
    [event] = await it.events()
    assert (event.type, event.reason, event.action) == ("Normal", "Descheduled", "Evicting")
    assert event.note == "pod evicted by a hot node"
    assert (event.regarding.kind, event.regarding.name) == ("Pod", "p")


async def test_without_a_reason_the_plugin_is_named() -> None:
    it = Scene()
    assert await it.evictor.evict(await it.run(), EvictOptions(plugin_name="Evicts"))
    assert [event.note for event in await it.events()] == ["pod evicted by Evicts"]


async def test_events_can_be_left_out() -> None:
    it = Scene()
    assert await PodEvictor(it.client, None).evict(await it.run(), EvictOptions())
    assert await it.events() == []


@pytest.mark.parametrize(("seconds", "rest"), [(None, 30), (5, 5)])
async def test_the_grace_period_is_the_pods_own_unless_another_one_is_wanted(
    seconds: int | None, rest: int
) -> None:
    it = Scene()
    pod = await it.run()
    assert await it.evictor.evict(pod, EvictOptions(grace_period_seconds=seconds))
    document = await it.client.get_raw(resource_of(Pod), "default", "p")
    assert document["metadata"]["deletionGracePeriodSeconds"] == rest


async def test_a_budget_that_forbids_it_keeps_the_pod(caplog: pytest.LogCaptureFixture) -> None:
    it = Scene()
    pod = await it.run(app="x")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    await it.client.create_raw(resource_of(PodDisruptionBudget), "default", budget)
    before = counted("error", "Evicts")
    assert not await it.evictor.evict(pod, EvictOptions(plugin_name="Evicts"))
    assert not (await it.live()).metadata.deletion_timestamp
    assert counted("error", "Evicts") == before + 1
    assert await it.events() == []
    assert 'error when evicting pod (ignoring) "default/p": ' in caplog.text


async def test_a_pod_that_is_gone_is_not_evicted(caplog: pytest.LogCaptureFixture) -> None:
    it = Scene()
    pod = await it.run()
    await it.client.delete(Pod, "default", "p", grace_period_seconds=0)
    before = counted("error", "Evicts")
    assert not await it.evictor.evict(pod, EvictOptions(plugin_name="Evicts"))
    assert counted("error", "Evicts") == before + 1
    assert 'pod not found when evicting "default/p": ' in caplog.text


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(status=403)])
async def test_other_failures_are_refusals_too(fault: Fault, caplog: pytest.LogCaptureFixture) -> None:
    it = Scene()
    pod = await it.run()
    it.server.faults = lambda method, path: fault if path.endswith("/eviction") else None
    before = counted("error", "Evicts")
    assert not await it.evictor.evict(pod, EvictOptions(plugin_name="Evicts"))
    assert not (await it.live()).metadata.deletion_timestamp
    assert counted("error", "Evicts") == before + 1
    assert 'evicting pod "default/p": ' in caplog.text
