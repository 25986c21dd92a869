"""The descheduler against an API server: a hot node, an idle node, evictions through the subresource."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koordpy.api.catalogue import Catalogue
from koordpy.api.core import Event, Node, Pod, PodDisruptionBudget, ReplicaSet
from koordpy.api.koordinator import NodeMetric
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import set_available
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.events import Recorder
from koordpy.cluster.informers import Informers
from koordpy.cluster.leader import LeaderElector
from koordpy.descheduling.config.configuration import DeschedulerConfiguration
from koordpy.descheduling.config.loading import load
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.descheduling.engine.framework import GROUP
from koordpy.descheduling.explain.decisions import Outcome
from koordpy.descheduling.interface import Plugin
from koordpy.embedded.apiserver import ApiServer
from koordpy_plugins.descheduling.defaultevictor.plugin import DefaultEvictor
from koordpy_plugins.descheduling.lownodeload.plugin import LowNodeLoad
from tests.eventually import PATIENCE

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
REASON = "node is overutilized, node cpu usage(90.00%)>threshold(70.00%)"


def configuration(**settings: Any) -> DeschedulerConfiguration:
    config = load(
        """
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerConfiguration
        profiles:
        - name: koord-descheduler
          plugins:
            balance: {enabled: [{name: LowNodeLoad}]}
            evict: {disabled: [{name: "*"}], enabled: [{name: DefaultEvictor}]}
            filter: {disabled: [{name: "*"}], enabled: [{name: DefaultEvictor}]}
          pluginConfig:
          - name: LowNodeLoad
            args:
              lowThresholds: {cpu: 40}
              highThresholds: {cpu: 70}
              anomalyCondition: {consecutiveAbnormalities: 1}
        """
    )
    return config.model_copy(update=settings)


@dataclass
class World:
    """A cluster of one hot and one idle node; four pods of 900m each on the hot one."""

    client: Client
    owner_uid: str = "1"
    """The UID of the pods' ReplicaSet, which exists only after `deploy`."""

    async def deploy(self) -> None:
        """Create the ReplicaSet of the pods: migrations ask how many replicas it has."""
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        await self.make(ReplicaSet, {"metadata": {"namespace": "default", "name": "web"}, "spec": spec})
        self.owner_uid = (await self.client.get(ReplicaSet, "default", "web")).metadata.uid

    async def place_reservation(self, node_name: str) -> Reservation:
        """Wait for the Reservation of a migration, and give it a node as its scheduler does."""
        while not (found := await self.client.list_all(Reservation)):
            await asyncio.sleep(0.02)
        placed = set_available(found[0], node_name, datetime.now(UTC))
        status = {"status": msgspec.to_builtins(placed.status)}
        await self.client.patch_status(Reservation, "", placed.metadata.name, status)
        return placed

    async def use_reservation(self, reservation: Reservation, pod_name: str) -> None:
        """Note the pod that uses a Reservation in its status, as its controller does."""
        pod = await self.client.get(Pod, "default", pod_name)
        owner = {"namespace": "default", "name": pod_name, "uid": pod.metadata.uid}
        status = {"phase": "Succeeded", "currentOwners": [owner]}
        await self.client.patch_status(Reservation, "", reservation.metadata.name, {"status": status})

    async def make(self, type_: Any, document: dict[str, Any], status: dict[str, Any] | None = None) -> None:
        resource = resource_of(type_)
        namespace = document["metadata"].get("namespace", "")
        document = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        await self.client.create_raw(resource, namespace, document)
        if status is not None:
            await self.client.patch_status(type_, namespace, document["metadata"]["name"], {"status": status})

    async def fill(self) -> None:
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        for name in ("hot", "idle"):
            ready = {"type": "Ready", "status": "True"}
            status = {"allocatable": capacity, "capacity": capacity, "conditions": [ready]}
            await self.make(Node, {"metadata": {"name": name}}, status)
        for index in range(4):
            await self.make_pod(f"web-{index}")
        used = [
            {"namespace": "default", "name": f"web-{index}", "podUsage": {"resources": {"cpu": "900m"}}}
            for index in range(4)
        ]
        await self.measure("hot", used)
        await self.measure("idle", [])

    async def make_pod(self, name: str, node_name: str = "hot") -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
        metadata = {
            "namespace": "default",
            "name": name,
            "labels": {"app": "web"},
            "ownerReferences": [owner | {"uid": self.owner_uid}],
        }
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        spec = {"nodeName": node_name, "schedulerName": "koord-scheduler", "containers": [container]}
        await self.make(Pod, {"metadata": metadata, "spec": spec}, ready)

    async def measure(self, node: str, pods: list[dict[str, Any]]) -> None:
        status = {
            "updateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "nodeMetric": {"nodeUsage": {}, "systemUsage": {}},
            "podsMetric": pods,
        }
        await self.make(NodeMetric, {"metadata": {"name": node}, "spec": {}}, status)

    async def evicted(self) -> list[str]:
        """The pods that are gone or on their way."""
        there = {
            pod.metadata.name
            for pod in await self.client.list_all(Pod)
            if pod.metadata.deletion_timestamp is None
        }
        return sorted({f"web-{index}" for index in range(4)} - there)

    @asynccontextmanager
    async def descheduler(self, **settings: Any) -> AsyncIterator[Descheduler]:
        cluster = Cluster()
        events = Recorder(self.client, controller="koord-descheduler")
        catalogue = Catalogue.of(GROUP, Plugin, [LowNodeLoad, DefaultEvictor])
        target = Descheduler(configuration(**settings), catalogue, cluster, self.client, events)
        async with Informers(cluster, self.client) as informers:
            await informers.wait_synced(PATIENCE)
            yield target
            await events.flush()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with ApiServer(crds=[CRDS]) as server:
        client = Client(Connection.to(Access(server.url)))
        try:
            made = World(client)
            await made.fill()
            yield made
        finally:
            await client.close()


async def test_pods_of_a_hot_node_are_evicted_until_it_has_cooled_down(world: World) -> None:
    async with world.descheduler() as descheduler:
        current = await descheduler.run_once()
    assert [(item.node, item.outcome, item.reason) for item in current.evictions] == [
        ("hot", Outcome.EVICTED, REASON)
    ]
    assert [f"default/{name}" for name in await world.evicted()] == [current.evictions[0].pod]
    (event,) = await world.client.list_all(Event)
    assert (event.type, event.reason, event.action) == ("Normal", "Descheduled", "Evicting")
    assert event.note == f"pod evicted by {REASON}"
    assert f"default/{event.regarding.name}" == current.evictions[0].pod


async def test_a_disruption_budget_is_respected(world: World) -> None:
    budget = {
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}},
    }
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 4,
        "desiredHealthy": 4,
        "expectedPods": 4,
    }
    await world.make(PodDisruptionBudget, budget, status)
    async with world.descheduler() as descheduler:
        current = await descheduler.run_once()
    assert {item.outcome for item in current.evictions} == {Outcome.REFUSED}
    assert len(current.evictions) == 3  # what the idle node could take
    assert await world.evicted() == []


async def test_dry_run_decides_the_same_and_writes_nothing(world: World) -> None:
    async with world.descheduler(dry_run=True) as descheduler:
        current = await descheduler.run_once()
    assert [(item.outcome, item.reason) for item in current.evictions] == [(Outcome.DRY_RUN, REASON)]
    assert await world.evicted() == []
    assert await world.client.list_all(Event) == []


async def test_limits_stop_evictions(world: World) -> None:
    async with world.descheduler(max_no_of_pods_to_evict_per_namespace=0) as descheduler:
        current = await descheduler.run_once()
    assert {item.outcome for item in current.evictions} == {Outcome.LIMITED}
    assert await world.evicted() == []


async def test_only_the_leader_deschedules(world: World) -> None:
    def candidate(identity: str) -> LeaderElector:
        return LeaderElector(world.client, "default", "koord-descheduler", identity)

    async with world.descheduler() as leading, world.descheduler() as waiting:

        async def lead() -> None:
            await leading.serve()
            assert not candidate("other").is_leader
            assert len(waiting.decisions.rounds) == 0

        await candidate("one").run(lead)
    assert len(leading.decisions.rounds) == 1
    assert len(await world.evicted()) == 1
