"""Pods that race on a real control plane: replicas of koordpy that can be killed, and a watch that sees all.

koordpy reaches the API server through a proxy that fails bindings on request. Pods are created and watched by
this process; replicas and kube-schedulers are processes of their own.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from koordpy import data
from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Connection
from koordpy.cluster.informers import Informers
from tests import loopback
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process, free_port
from tests.eventually import PATIENCE

Document = dict[str, Any]

NAMESPACE = "default"
AT_ONCE = 32


def profiles(plugins: Mapping[str, Document], names: Sequence[str] = ("default-scheduler",)) -> Document:
    """Return a scheduler configuration with plugins and their arguments, for pods of these schedulers."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": name,
                "plugins": {
                    "multiPoint": {"enabled": [{"name": plugin} for plugin in plugins]},
                    "filter": {"enabled": [{"name": "NodeResourcesFit"}]},
                },
                "pluginConfig": [{"name": plugin, "args": args} for plugin, args in plugins.items()],
            }
            for name in names
        ],
    }


class Replica:
    """`koordpy serve` with the extender, and the configuration of a kube-scheduler that calls it."""

    def __init__(
        self, folder: Path, client: Document, profile: Document, gates: Mapping[str, bool] | None = None
    ) -> None:
        folder.mkdir(parents=True)
        self.ports = {part: free_port() for part in ("extender", "debug")}
        self._folder, self._config = folder, folder / "koordpy.yaml"
        (folder / "profiles.yaml").write_text(yaml.safe_dump(profile))
        lease = {"namespace": "kube-system"}
        extender = {"port": self.ports["extender"], "schedulerConfig": str(folder / "profiles.yaml")}
        self._config.write_text(
            yaml.safe_dump(
                {
                    "parts": ["extender", "debug"],
                    "client": client,
                    "extender": {**extender, "lease": lease},
                    "debug": {"port": self.ports["debug"]},
                    "featureGates": dict(gates or {}),
                }
            )
        )
        self.process: Process | None = None

    def start(self) -> None:
        """Start it; returns when it is ready. Call it on the main thread."""
        code = "from koordpy.cli import main; main()"
        command: list[str | Path] = [sys.executable, "-c", code, "serve", "--config", str(self._config)]
        self.process = Process("koordpy", command, self._folder)
        url = f"http://127.0.0.1:{self.ports['debug']}/readyz"
        self.process.wait_ready(lambda: loopback.is_ready(url))

    def kill(self) -> None:
        """Kill it, as with `kill -9`."""
        if self.process is not None:
            self.process.kill()

    def get(self, path: str) -> httpx.Response:
        """Ask its debug API."""
        return loopback.get(f"http://127.0.0.1:{self.ports['debug']}{path}")

    def said_of(self, pods: Iterable[Pod]) -> str:
        """Return what the histories of pods say, and why they wait."""
        found = []
        for pod in pods:
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            found.append(f"--- {key}: {self.get(f'/apis/v1/pods/{key}/history').text}")
        return "\n".join(found)

    def log(self, lines: int = 40) -> str:
        """Return the end of its log."""
        return self.process.log_tail(lines) if self.process is not None else "never started"

    def scheduler_config(self, name: str = "default-scheduler") -> Document:
        """Return the shipped configuration of kube-scheduler with one profile, which calls this replica."""
        document: Document = yaml.safe_load(
            data.deploy("scheduler", "kube-scheduler-config.yaml").read_text()
        )
        profile = next(each for each in document["profiles"] if each["schedulerName"] == "default-scheduler")
        for extender in document["extenders"]:
            extender["urlPrefix"] = f"http://127.0.0.1:{self.ports['extender']}/extender"
        return {**document, "profiles": [{**profile, "schedulerName": name}]}


class PodWatch:
    """Sees every change of pods in the order in which they were written, and keeps those with a node.

    `on_bound` is called for each pod that gets a node, `on_gone` for each of these that is deleted.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.cluster = Cluster()
        self._client = client_of(plane)
        self._informers = Informers(self.cluster, self._client)
        self.bound: dict[str, Pod] = {}
        self.on_bound: Callable[[Pod], None] = lambda _: None
        self.on_gone: Callable[[Pod], None] = lambda _: None
        self.cluster.store(Pod).subscribe(self._seen, lambda _, new: self._seen(new), self._gone)

    def waiting(self) -> list[Pod]:
        """Return the pods without a node."""
        return [pod for pod in self.cluster.store(Pod) if not pod.spec.node_name]

    async def __aenter__(self) -> "PodWatch":
        await self._informers.start()
        await self._informers.wait_synced(PATIENCE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._informers.stop()
        await self._client.close()

    def _seen(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.spec.node_name and uid not in self.bound:
            self.bound[uid] = pod
            self.on_bound(pod)

    def _gone(self, pod: Pod) -> None:
        if self.bound.pop(pod.metadata.uid, None) is not None:
            self.on_gone(pod)

    async def until(
        self, holds: Callable[[], bool], complaint: Callable[[], str], seconds: float = PATIENCE
    ) -> None:
        """Wait until something holds. `seconds` count from the last pod that was bound."""
        seen, deadline = len(self.bound), time.monotonic() + seconds
        while not holds():
            if len(self.bound) != seen:
                seen, deadline = len(self.bound), time.monotonic() + seconds
            assert time.monotonic() < deadline, complaint()
            await asyncio.sleep(0.1)


def client_of(plane: ControlPlane) -> Client:
    """Return a client of an administrator."""
    return Client(Connection.from_kubeconfig(str(plane.kubeconfig)))


async def create_all(client: Client, type_: type[KubeObject], documents: Iterable[Document]) -> None:
    """Create objects, many at a time."""
    namespace = "" if type_ is Node else NAMESPACE
    resource = resource_of(type_)
    await all_of(client.create_raw(resource, namespace, document) for document in documents)


async def all_of(requests: Iterator[Awaitable[Any]]) -> None:
    """Await many requests, some at a time."""

    async def worker() -> None:
        for request in requests:
            await request

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def node(name: str, cpu: str, **labels: str) -> Document:
    """Return a node that is ready."""
    capacity = {"cpu": cpu, "memory": "256Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "Test"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
    }


def pod(name: str, cpu: str, scheduler: str = "default-scheduler", **metadata: Any) -> Document:
    """Return a pod that requests CPU."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }
