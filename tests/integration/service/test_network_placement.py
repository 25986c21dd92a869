"""Gangs that want a place in the network, beside a scheduler that knows nothing of gangs."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import data, settings
from koordpy.api.core import Node, Pod
from koordpy.api.gang.topology_spec import ANNOTATION_TOPOLOGY_SPEC
from koordpy.api.koordinator import PodGroup
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config as scheduler_config
from tests.eventually import PATIENCE
from tests.processes import serve_process

Document = dict[str, Any]

LAYERS = [
    {"topologyLayer": "SpineLayer", "labelKey": ["example.com/spine"]},
    {"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": ["example.com/block"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
]
BLOCKS = {"b1": ("s1", 2), "b2": ("s1", 3), "b3": ("s2", 3)}
"""The spine and the number of nodes of each block."""


def profiles(**args: Any) -> Document:
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    given = [{"name": "Coscheduling", "args": {"awareNetworkTopology": True, **args}}]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": given}],
    }


class Stage:
    """A cluster of three blocks, koordpy, and a scheduler that calls it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, kind: type[Any], document: Document, namespace: str = "") -> None:
        resource = resource_of(kind)
        await self.client.create_raw(
            resource, namespace, {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        )

    async def build(self, blocks: Mapping[str, tuple[str, int]]) -> None:
        spec = {"networkTopologySpec": LAYERS}
        await self.create(ClusterNetworkTopology, {"metadata": {"name": "default"}, "spec": spec})
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        for block, (spine, count) in blocks.items():
            labels = {"example.com/spine": spine, "example.com/block": block}
            for number in range(count):
                metadata: Document = {"name": f"{block}-n{number}", "labels": labels}
                await self.create(Node, {"metadata": metadata})
                await self.client.patch_status(Node, "", metadata["name"], {"status": status})

    async def add_gang(self, name: str, count: int, rules: list[Document], cpu: str = "6") -> None:
        annotations = {ANNOTATION_TOPOLOGY_SPEC: json.dumps({"gatherStrategy": rules})}
        metadata = {"name": name, "annotations": annotations}
        await self.create(PodGroup, {"metadata": metadata, "spec": {"minMember": count}}, "default")
        for number in range(count):
            labels = {"pod-group.scheduling.sigs.k8s.io": name}
            container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
            document = {
                "metadata": {"name": f"{name}-{number}", "labels": labels},
                "spec": {"containers": [container]},
            }
            await self.create(Pod, document, "default")

    async def nodes_of(self, name: str) -> list[str]:
        """The nodes of a gang's pods, empty for those without one."""
        pods = await self.client.list_all(Pod, "default")
        return sorted(pod.spec.node_name for pod in pods if pod.metadata.name.startswith(f"{name}-"))

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := await holds()):
                    await asyncio.sleep(0.05)
                return found
        except TimeoutError:
            pods = await self.client.list_all(Pod, "default")
            seen = [(pod.spec.node_name, pod.status.conditions) for pod in pods]
            raise AssertionError(f"{what}: {seen}") from None


@asynccontextmanager
async def cluster(
    folder: Path,
    blocks: Mapping[str, tuple[str, int]] = BLOCKS,
    *,
    alone: bool = False,
    percentage: int = 0,
    **args: Any,
) -> AsyncIterator[Stage]:
    """Run a cluster, `alone` with koordpy's plugins in the scheduler itself.

    `percentage` is that of the nodes at which the scheduler stops looking for more; `args` are the plugin's.
    """
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        client = Client(Connection.find(None, None, server.url))
        stage = Stage(client)
        await stage.build(blocks)
        if alone:
            scheduler = Scheduler(scheduler_config.read(profiles(**args)), client, network_topology=True)
            await scheduler.start()
            try:
                yield stage
            finally:
                await scheduler.stop()
                await client.close()
            return
        process = await serving(folder, {"server": server.url}, **args)
        configuration = beside(process.listeners["extender"].url)
        configuration["percentageOfNodesToScore"] = percentage
        scheduler = Scheduler(scheduler_config.read(configuration), client)
        await scheduler.start()
        try:
            yield stage
        finally:
            await scheduler.stop()
            await process.stop()
            await client.close()


async def serving(folder: Path, access: Document, **args: Any) -> Process:
    """Run koordpy beside a scheduler."""
    written = folder / "profiles.yaml"
    written.write_text(yaml.safe_dump(profiles(**args)))
    document = {
        "client": access,
        "parts": ["extender"],
        "debug": {"port": 0},
        "extender": {
            "port": 0,
            "schedulerConfig": str(written),
            "leaderElect": False,
            "networkTopologyManager": True,
        },
    }
    process = serve_process(settings.load(None, document))
    await process.start()
    await process.wait_ready(PATIENCE)
    return process


def beside(url: str) -> Document:
    """The configuration of a scheduler that calls koordpy."""
    common = {"urlPrefix": f"{url}/extender", "nodeCacheCapable": True}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
        "extenders": [
            {**common, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1},
            {**common, "bindVerb": "bind", "httpTimeout": "60s"},
        ],
    }


@pytest.mark.parametrize("alone", [False, True], ids=["beside", "alone"])
async def test_a_gang_is_placed_below_the_smallest_block_that_holds_it_whole(
    tmp_path: Path, alone: bool
) -> None:
    async with cluster(tmp_path, alone=alone) as stage:
        await stage.add_gang("wide", 3, [{"layer": "BlockLayer", "strategy": "MustGather"}])

        async def is_bound() -> bool:
            return all(await stage.nodes_of("wide"))

        await stage.until(is_bound, "the gang is not bound")
        assert await stage.nodes_of("wide") == ["b3-n0", "b3-n1", "b3-n2"]
        # Both b2 and b3 have room for just three; b3 is below the spine with less room.
        await stage.add_gang("small", 2, [{"layer": "BlockLayer", "strategy": "MustGather"}])

        async def is_bound_too() -> bool:
            return all(await stage.nodes_of("small"))

        await stage.until(is_bound_too, "the second gang is not bound")
        assert await stage.nodes_of("small") == ["b1-n0", "b1-n1"]


async def test_planned_nodes_that_the_scheduler_does_not_offer_are_nominated_until_it_does(
    tmp_path: Path,
) -> None:
    large = {f"b{number:02}": ("s1", 20) for number in range(7)}
    async with cluster(tmp_path, {**large, "last": ("s2", 10)}, percentage=5) as stage:
        # The scheduler looks at 100 nodes at a time. Below s2 there is the least room, hence the best place.
        await stage.add_gang("wide", 10, [{"layer": "BlockLayer", "strategy": "MustGather"}])

        async def is_bound() -> bool:
            return all(await stage.nodes_of("wide"))

        await stage.until(is_bound, "the gang is not bound")
        assert await stage.nodes_of("wide") == [f"last-n{number}" for number in range(10)]


@pytest.mark.parametrize("alone", [False, True], ids=["beside", "alone"])
async def test_a_gang_that_no_block_holds_stays_pending_with_the_reason_and_takes_nothing(
    tmp_path: Path, alone: bool
) -> None:
    async with cluster(tmp_path, alone=alone) as stage:
        await stage.add_gang("big", 4, [{"layer": "BlockLayer", "strategy": "MustGather"}])

        async def reason() -> str:
            """The condition of a pod that was tried when the gang was complete."""
            for pod in await stage.client.list_all(Pod, "default"):
                for condition in pod.status.conditions:
                    if "no candidate topology nodes" in condition.message:
                        return condition.message
            return ""

        message = await stage.until(reason, "no pod has the reason")
        assert "no candidate topology nodes can accommodate job, desiredOfferSlot: 4" in message
        assert "BlockLayer/b1: 2;topology topologyNode BlockLayer/b2: 3" in message
        assert await stage.nodes_of("big") == ["", "", "", ""]
        await stage.add_gang("loose", 8, [{"layer": "SpineLayer", "strategy": "PreferGather"}])

        async def is_bound() -> bool:
            return all(await stage.nodes_of("loose"))

        await stage.until(is_bound, "the gang that may spread is not bound")
        assert await stage.nodes_of("big") == ["", "", "", ""]


async def test_without_awareness_a_gang_that_wants_a_place_is_placed_anywhere_if_that_is_allowed(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, awareNetworkTopology=False, ignoreNetworkTopologySpec=True) as stage:
        await stage.add_gang("any", 8, [{"layer": "BlockLayer", "strategy": "MustGather"}])

        async def is_bound() -> bool:
            return all(await stage.nodes_of("any"))

        await stage.until(is_bound, "the gang is not bound")
