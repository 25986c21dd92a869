"""Gangs that preempt, beside a scheduler that knows nothing of gangs."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from koordpy import data, settings
from koordpy.api.core import Node, Pod, PriorityClass
from koordpy.api.gang.topology_spec import ANNOTATION_TOPOLOGY_SPEC
from koordpy.api.koordinator import PodGroup
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config as scheduler_config
from tests.eventually import PATIENCE
from tests.processes import serve_process

Document = dict[str, Any]

LAYERS = [
    {"topologyLayer": "BlockLayer", "labelKey": ["example.com/block"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
]
ONE_BLOCK = json.dumps({"gatherStrategy": [{"layer": "BlockLayer", "strategy": "MustGather"}]})

JOINT = {"enablePreemption": True, "preemptionJointFit": True}


def profiles(args: Document) -> Document:
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": plugins,
                "pluginConfig": [{"name": "Coscheduling", "args": args}],
            }
        ],
    }


class Stage:
    """Nodes of two CPUs, each taken by a less important pod, koordpy, and a scheduler that calls it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, kind: type[Any], document: Document, namespace: str = "") -> None:
        resource = resource_of(kind)
        await self.client.create_raw(
            resource, namespace, {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        )

    async def build(self, nodes: int, **victims: Any) -> None:
        spec = {"networkTopologySpec": LAYERS}
        await self.create(ClusterNetworkTopology, {"metadata": {"name": "default"}, "spec": spec})
        for name, value in (("low", 10), ("high", 1000)):
            await self.create(PriorityClass, {"metadata": {"name": name}, "value": value})
        amounts = {"cpu": "2", "memory": "32Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        for number in range(1, nodes + 1):
            labels = {"example.com/block": f"b{(number + 1) // 2}"}  # n1 and n2, n3 and n4
            metadata = {"name": f"n{number}", "labels": labels}
            await self.create(Node, {"metadata": metadata, "status": status})
            options: dict[str, Any] = {"terminationGracePeriodSeconds": 0, **victims}
            await self.add_pod(f"low-n{number}", "2", "low", nodeName=f"n{number}", **options)

    async def add_pod(
        self, name: str, cpu: str, priority: str, labels: dict[str, str] | None = None, **spec: Any
    ) -> None:
        container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
        document = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"containers": [container], "priorityClassName": priority, **spec},
        }
        await self.create(Pod, document, "default")

    async def add_gang(
        self, name: str, count: int, cpu: str = "2", priority: str = "high", wanted: str = ""
    ) -> None:
        """Add a gang; `wanted` is its network-topology-spec."""
        metadata = {"name": name, "annotations": {ANNOTATION_TOPOLOGY_SPEC: wanted} if wanted else {}}
        await self.create(PodGroup, {"metadata": metadata, "spec": {"minMember": count}}, "default")
        for number in range(count):
            labels = {"pod-group.scheduling.sigs.k8s.io": name}
            await self.add_pod(f"{name}-{number}", cpu, priority, labels)

    async def pods(self) -> dict[str, Pod]:
        return {pod.metadata.name: pod for pod in await self.client.list_all(Pod, "default")}

    async def end(self, name: str) -> None:
        await self.client.delete(Pod, "default", name, grace_period_seconds=0)

    async def terminating(self) -> list[str]:
        pods = await self.pods()
        return sorted(name for name, pod in pods.items() if pod.metadata.deletion_timestamp)

    async def bound(self, name: str, count: int) -> bool:
        pods = await self.pods()
        members = [pod for key, pod in pods.items() if key.startswith(f"{name}-")]
        return sum(bool(pod.spec.node_name) for pod in members) == count

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := await holds()):
                    await asyncio.sleep(0.05)
                return found
        except TimeoutError:
            seen = {
                name: (pod.spec.node_name, pod.status.nominated_node_name, pod.status.conditions)
                for name, pod in (await self.pods()).items()
            }
            raise AssertionError(f"{what}: {seen}") from None


@asynccontextmanager
async def cluster(folder: Path, args: Document, nodes: int, **victims: Any) -> AsyncIterator[Stage]:
    written = folder / "profiles.yaml"
    written.write_text(yaml.safe_dump(profiles(args)))
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        client = Client(Connection.find(None, None, server.url))
        stage = Stage(client)
        await stage.build(nodes, **victims)
        document = {
            "client": {"server": server.url},
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
        common = {"urlPrefix": f"{process.listeners['extender'].url}/extender", "nodeCacheCapable": True}
        verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt"}
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}],
            "extenders": [
                {**common, **verbs, "weight": 1},
                {**common, "bindVerb": "bind", "httpTimeout": "60s"},
            ],
        }
        scheduler = Scheduler(scheduler_config.read(configuration), client)
        await scheduler.start()
        try:
            yield stage
        finally:
            await scheduler.stop()
            await process.stop()
            await client.close()


async def test_a_gang_takes_the_places_of_as_many_less_important_pods_as_it_has_members(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, JOINT, nodes=4) as stage:
        await stage.add_gang("high", 3)
        await stage.until(lambda: stage.bound("high", 3), "the gang is not bound")
        left = [name for name in await stage.pods() if name.startswith("low-")]
        assert len(left) == 1


async def test_nobody_is_evicted_for_a_gang_that_would_not_fit_even_then(tmp_path: Path) -> None:
    async with cluster(tmp_path, JOINT, nodes=2) as stage:
        await stage.add_gang("high", 3)

        async def told() -> bool:
            pods = await stage.pods()
            return any(
                condition.type == "PodScheduled" and condition.status == "False"
                for name, pod in pods.items()
                if name.startswith("high-")
                for condition in pod.status.conditions
            )

        await stage.until(told, "no member is told anything")
        # What comes later is scheduled, so the gang has been tried by then.
        await stage.end("low-n1")
        await stage.add_pod("small-1", "100m", "low")
        await stage.until(lambda: stage.bound("small", 1), "the small pod is not bound")
        assert "low-n2" in await stage.pods()


async def test_while_victims_take_their_time_no_others_are_evicted(tmp_path: Path) -> None:
    async with cluster(tmp_path, JOINT, nodes=4, terminationGracePeriodSeconds=600) as stage:
        await stage.add_gang("high", 2)

        async def two_terminate() -> list[str]:
            names = await stage.terminating()
            return names if len(names) == 2 else []

        victims = await stage.until(two_terminate, "no two pods are evicted")
        await stage.end(victims[0])  # another attempt is made, and that is not enough

        async def nominated() -> bool:
            pods = await stage.pods()
            return all(pods[f"high-{number}"].status.nominated_node_name for number in range(2))

        await stage.until(nominated, "the members are not nominated")
        assert await stage.terminating() == victims[1:]
        await stage.end(victims[1])
        await stage.until(lambda: stage.bound("high", 2), "the gang is not bound")
        left = [name for name in await stage.pods() if name.startswith("low-")]
        assert len(left) == 2
        assert await stage.terminating() == []


async def test_two_gangs_that_compete_for_the_same_victims_evict_each_pod_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, JOINT, nodes=4) as stage:
        await stage.add_gang("one", 2)
        await stage.add_gang("two", 2)
        await stage.until(lambda: stage.bound("one", 2), "the first gang is not bound")
        await stage.until(lambda: stage.bound("two", 2), "the second gang is not bound")
        assert not [name for name in await stage.pods() if name.startswith("low-")]


async def test_a_gang_that_wants_one_block_evicts_pods_of_one_block(tmp_path: Path) -> None:
    async with cluster(tmp_path, {**JOINT, "awareNetworkTopology": True}, nodes=6) as stage:
        await stage.end("low-n2")
        await stage.end("low-n5")
        await stage.add_gang("high", 2, wanted=ONE_BLOCK)
        await stage.until(lambda: stage.bound("high", 2), "the gang is not bound")
        pods = await stage.pods()
        nodes = {pods[f"high-{number}"].spec.node_name for number in range(2)}
        assert nodes in ({"n1", "n2"}, {"n3", "n4"}, {"n5", "n6"})
        left = {name.removeprefix("low-") for name in pods if name.startswith("low-")}
        assert left == {"n1", "n3", "n4", "n6"} - nodes
