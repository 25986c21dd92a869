"""A whole embedded control plane with its stand-ins, in one process and on simulated time.

def test_...() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 3))
        await cluster.until(lambda: len(cluster.pods()) == 3)
    live(story)
"""

import asyncio
import copy
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import msgspec

from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.server import controllers_for
from koordpy.embedded.kubelet import Kubelets
from koordpy.embedded.scheduler import Scheduler
from koordpy.embedded.workloads import WorkloadControllers
from koordpy.lib import simulated_time
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.scheduling.profiles import config
from koordpy.simulation.inprocess import ServerChannel

Document = dict[str, Any]

START = datetime(2026, 1, 1, tzinfo=UTC)
MERGE = "application/merge-patch+json"
NODES = ("a", "b", "c")


class Living:
    """The cluster of one test, in namespace `default` where none is given."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.clock = SimulatedClock(loop, START)
        self.api = ApiServer(clock=self.clock, rng=random.Random(1), **self.options)
        self.client = self.new_client()
        self.controllers: WorkloadControllers | None = None
        self.kubelets: Kubelets | None = None
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    options: dict[str, Any] = {}
    scheduler_configuration: Document = {}

    def new_client(self) -> Client:
        return Client(ServerChannel(self.api), rng=random.Random(2))

    async def start(self, nodes: tuple[str, ...] = NODES) -> None:
        await self.api.load()
        for controller in controllers_for(self.api):
            self._tasks.append(asyncio.create_task(controller.run()))
        for name in nodes:
            await self.add_node(name)
        await self.start_scheduler()
        await self.start_kubelets()
        await self.start_controllers()

    async def start_scheduler(self, **more: Any) -> None:
        document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        made = config.read({**document, **self.scheduler_configuration})
        self.scheduler = Scheduler(made, self.new_client(), clock=self.clock, rng=random.Random(3), **more)
        self._stack.push_async_callback(self.scheduler.stop)
        await self.scheduler.start()

    async def stop(self) -> None:
        await self.stop_controllers()
        await self.stop_kubelets()
        await self._stack.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def start_controllers(self) -> None:
        self.controllers = WorkloadControllers(self.new_client(), clock=self.clock, rng=random.Random(4))
        await self.controllers.start()

    async def stop_controllers(self) -> None:
        if self.controllers is not None:
            await self.controllers.stop()
            self.controllers = None

    async def start_kubelets(self) -> None:
        self.kubelets = Kubelets(self.new_client(), clock=self.clock, rng=random.Random(5), reports=None)
        await self.kubelets.start()

    async def stop_kubelets(self) -> None:
        if self.kubelets is not None:
            await self.kubelets.stop()
            self.kubelets = None

    async def add_node(self, name: str, **metadata: Any) -> None:
        amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, **metadata.pop("labels", {})}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, **metadata},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        await self.create("nodes", node)

    # --- objects ---------------------------------------------------------------------------------

    def path(self, plural: str, name: str = "", namespace: str = "default") -> str:
        served = next(item for item in self.api.catalog if item.plural == plural)
        path = served.path(namespace if served.namespaced else "")
        return f"{path}/{name}" if name else path

    async def create(self, plural: str, document: Document, namespace: str = "default") -> Document:
        body = msgspec.json.encode(document)
        return _read(await self.client.send("POST", self.path(plural, "", namespace), body))

    async def patch(self, plural: str, name: str, patch: Document, namespace: str = "default") -> Document:
        path, _, query = f"{name}".partition("?")
        body = msgspec.json.encode(patch)
        where = self.path(plural, path, namespace) + (f"?{query}" if query else "")
        return _read(await self.client.send("PATCH", where, body, content_type=MERGE))

    async def delete(self, plural: str, name: str, namespace: str = "default", **options: Any) -> None:
        body = msgspec.json.encode(options)
        await self.client.send("DELETE", self.path(plural, name, namespace), body)

    async def get(self, plural: str, name: str, namespace: str = "default") -> Document:
        return _read(await self.client.send("GET", self.path(plural, name, namespace)))

    async def evict(self, name: str) -> None:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        body = msgspec.json.encode(eviction)
        await self.client.send("POST", self.path("pods", f"{name}/eviction"), body, wait_on_429=False)

    def all(self, plural: str, namespace: str = "default", **labels: str) -> list[Document]:
        """The stored objects of a kind with some labels, in order of their names."""
        served = next(item for item in self.api.catalog if item.plural == plural)
        found = [record.document() for record in served.table]
        return sorted(
            (
                item
                for item in found
                if (not served.namespaced or item["metadata"]["namespace"] == namespace)
                and (item["metadata"].get("labels") or {}).items() >= labels.items()
            ),
            key=lambda item: item["metadata"]["name"],
        )

    def one(self, plural: str, name: str, namespace: str = "default") -> Any:
        """The stored object, or None."""
        found = [item for item in self.all(plural, namespace) if item["metadata"]["name"] == name]
        return found[0] if found else None

    def pods(self, **labels: str) -> list[Document]:
        return self.all("pods", **labels)

    def running(self, **labels: str) -> list[Document]:
        """The pods that are Ready and not being deleted."""
        return [
            pod
            for pod in self.pods(**labels)
            if "deletionTimestamp" not in pod["metadata"]
            and any(c["type"] == "Ready" and c["status"] == "True" for c in _conditions(pod))
        ]

    def events(self, reason: str) -> list[str]:
        found = [item for item in self.all("events") if item.get("reason") == reason]
        return [item.get("note") or item.get("message") or "" for item in found]

    # --- time ------------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], Any], seconds: float = 120.0) -> Any:
        """Let time pass until something holds; fail after so many simulated seconds."""
        deadline = self.clock.monotonic() + seconds
        while not (found := holds()):
            assert self.clock.monotonic() < deadline, f"not within {seconds:g} s"
            await asyncio.sleep(0.05)
        return found

    async def gone(self, plural: str, name: str, namespace: str = "default") -> bool:
        try:
            await self.get(plural, name, namespace)
        except NotFound:
            return True
        return False


def live(
    story: Callable[[Any], Awaitable[None]],
    *,
    nodes: tuple[str, ...] = NODES,
    kind: type[Living] = Living,
    **options: Any,
) -> None:
    """Run a story on a fresh cluster."""

    async def program(loop: SimulatedLoop) -> None:
        cluster = type("Cluster", (kind,), {"options": options})(loop)
        await cluster.start(nodes)
        try:
            await story(cluster)
        finally:
            await cluster.stop()

    simulated_time.run(program)


def deployment(name: str, replicas: int = 1, image: str = "web:1", **spec: Any) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image),
            **spec,
        },
    }


def template(app: str, image: str = "web:1", annotations: dict[str, str] | None = None) -> Document:
    found: Document = {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    if annotations:
        found["metadata"]["annotations"] = annotations
    return copy.deepcopy(found)


def pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec},
    }


def name_of(document: Document) -> str:
    return str(document["metadata"]["name"])


def condition(document: Document, type_: str) -> Document:
    return next((item for item in _conditions(document) if item["type"] == type_), {})


def _conditions(document: Document) -> list[Document]:
    return (document.get("status") or {}).get("conditions") or []


def _read(response: Any) -> Document:
    found: Document = msgspec.json.decode(response.body)
    return found
