"""Evictions by the node agent through an API server, and the executors of plugins."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koordpy.agent.cgroups.containers import ContainerKiller
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Version
from koordpy.agent.engine.eviction import NodeEviction
from koordpy.agent.engine.eviction_metrics import DETAILS, EVICTIONS, EvictionMetrics
from koordpy.agent.engine.evictor import Evictor, supported_version
from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.interface import CgroupLayout
from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import SystemClock
from tests.integration.service.stage import CRDS
from tests.integration.worker.stage import create

NODE = "n1"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with ApiServer(crds=CRDS) as server:
        made = Client(Connection.to(Access(server.url)))
        yield made
        await made.close()


class Events:
    """Keeps the events that are reported."""

    def __init__(self):
        self.reported = []

    def event(self, regarding, type_, reason, note, *, action="", related=None):
        self.reported.append((regarding.metadata.name, type_, reason, note))


class AuditEvents:
    """Keeps the events of the audit log."""

    def __init__(self):
        self.logged = []

    def log(self, level, reason, message, *, type="", namespace="", name="", container=""):
        self.logged.append((level, reason, message, type, namespace, name))


def eviction(client, events, root=Path("/no-cgroups"), audit=None, **flags):
    clock = SystemClock()
    metrics = EvictionMetrics(NODE, clock)
    files = CgroupFiles(root, Version.V1)
    layout = CgroupLayout(systemd=False)
    return NodeEviction(
        flags_of([NodeEviction], {"only-evict-by-api": True, **flags}),
        Evictor(client, events, clock, metrics, audit),
        ContainerKiller(files, layout),
        metrics,
    )


async def make_pod(client, name):
    document = {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
        "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}]},
    }
    await create(client, resource_of(Pod), document, {"phase": "Running"})
    return await client.get(Pod, "default", name)


async def test_a_pod_is_evicted_once_and_remembered(client):
    events, audit = Events(), AuditEvents()
    evictions = eviction(client, events, audit=audit)
    pod = await make_pod(client, "p")
    counted = EVICTIONS.labels(NODE, "evicted")._value.get()
    assert not evictions.is_evicted(pod)
    assert await evictions.evict(pod, "evicted", "because")
    assert evictions.is_evicted(pod)
    assert audit.logged == [(0, "evicted", "because", "pod", "default", "p")]
    assert await evictions.evict(pod, "evicted", "because")
    note = "evict Pod:default/p, reason: evicted, message: because"
    assert events.reported == [("p", "Warning", "evictPodSuccess", note)]
    assert EVICTIONS.labels(NODE, "evicted")._value.get() == counted + 1
    assert DETAILS.labels(NODE, "default", "p", "evicted")._value.get() >= 1
    assert (await client.get(Pod, "default", "p")).metadata.deletion_timestamp is not None


async def test_a_successor_of_the_same_name_is_never_evicted(client):
    events = Events()
    pod = await make_pod(client, "p")
    await client.delete(Pod, "default", "p", grace_period_seconds=0)
    successor = await make_pod(client, "p")
    assert not await eviction(client, events).evict(pod, "evicted", "because")
    assert (await client.get(Pod, "default", "p")).metadata.uid == successor.metadata.uid
    [(_, type_, reason, note)] = events.reported
    assert (type_, reason) == ("Warning", "evictPodFail")
    assert note.startswith("evict Pod:default/p, reason: evicted, message: because, error ")


async def test_a_protected_pod_is_not_evicted_and_is_tried_again(client):
    events, audit = Events(), AuditEvents()
    evictions = eviction(client, events, audit=audit)
    pod = await make_pod(client, "p")
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }
    await create(client, resource_of(PodDisruptionBudget), budget)
    for _ in range(2):
        assert not await evictions.evict(pod, "evicted", "because")
    assert not evictions.is_evicted(pod)
    assert [reason for _, _, reason, _ in events.reported] == ["evictPodFail"] * 2
    assert "429" in events.reported[0][3]
    assert len(audit.logged) == 2  # what was tried is audited, too
    assert (await client.get(Pod, "default", "p")).metadata.uid == pod.metadata.uid


async def test_the_version_of_the_eviction_api_is_discovered(client):
    assert await supported_version(client) == "v1"


async def test_without_an_api_server_nothing_is_evicted_by_api(client):
    events = Events()
    pod = await make_pod(client, "p")
    assert not await eviction(None, events).evict(pod, "evicted", "because")
    assert "no connection to the API server" in events.reported[0][3]


async def test_an_executor_of_a_plugin_takes_over(client):
    calls = []

    class Custom:
        def __init__(self, by_api, only_by_api):
            self.by_api, self.only_by_api = by_api, only_by_api

        async def evict(self, pod, reason, message):
            calls.append((pod.metadata.name, self.only_by_api))
            return await self.by_api.evict(pod, reason, message)

        def is_evicted(self, pod):
            return self.by_api.is_evicted(pod)

    evictions = eviction(client, Events())
    evictions.customize("nothing", lambda by_api, only_by_api: None)
    evictions.customize("mine", Custom)
    pod = await make_pod(client, "p")
    assert await evictions.evict(pod, "evicted", "because")
    assert calls == [("p", True)]
    assert evictions.is_evicted(pod)
    with pytest.raises(ValueError, match="other cannot evict pods: the eviction executor of mine does"):
        evictions.customize("other", Custom)


async def test_killing_always_counts_as_evicted_and_is_not_remembered(client, node_cgroups):
    events = Events()
    pod = await make_pod(client, "p")
    evictions = eviction(client, events, node_cgroups.root, **{"only-evict-by-api": False})
    assert await evictions.evict(pod, "evicted", "because")
    assert not evictions.is_evicted(pod)
    assert events.reported == []
    assert (await client.get(Pod, "default", "p")).metadata.uid == pod.metadata.uid
