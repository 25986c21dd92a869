"""A cluster in which pods preempt, beside a scheduler that knows nothing of gangs and quotas."""

import asyncio
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


def profiles(plugin: str, args: Document) -> Document:
    plugins = {"multiPoint": {"enabled": [{"name": plugin}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": plugins,
                "pluginConfig": [{"name": plugin, "args": args}],
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
async def cluster(
    folder: Path, args: Document, nodes: int, *, plugin: str = "Coscheduling", **victims: Any
) -> AsyncIterator[Stage]:
    """Run koordpy with one plugin, and a scheduler that calls it."""
    written = folder / "profiles.yaml"
    written.write_text(yaml.safe_dump(profiles(plugin, args)))
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
