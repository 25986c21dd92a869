"""`koordpy serve` in this process, on an embedded API server, called over HTTP as by strangers."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from koordpy import data, settings
from koordpy.admission.chain import Chain
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informers import Informers
from koordpy.compose.parts.admission import AdmissionPart
from koordpy.compose.parts.extender import ExtenderPart
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib import certificates
from koordpy.scheduling.explain.observers import Observers
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.profiles.profiles import Profiles
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE
from tests.processes import extender_of, serve_process

CRDS = [data.deploy("crds")]

Document = dict[str, Any]
T = TypeVar("T", bound=KubeObject)


def service_settings(server: str, folder: Path, **changes: Any) -> settings.Settings:
    """Return settings with free ports; `changes` are laid over them, nested like the file."""
    document: Document = {
        "client": {"server": server},
        "admission": {"bindAddress": "127.0.0.1", "port": 0, "certDir": str(folder / "certs")},
        "extender": {"port": 0},
        "debug": {"port": 0},
    }
    for key, value in changes.items():
        nested = isinstance(value, dict) and key in document
        document[key] = {**document[key], **value} if nested else value
    return settings.load(None, document)


def pod_document(name: str, cpu: str = "500m", namespace: str = "default", **metadata: Any) -> Document:
    """Return a pod with one container."""
    requests = {"cpu": cpu, "memory": "256Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}]},
    }


def review_of(pod: Mapping[str, Any], uid: str = "review-1") -> Document:
    """Return the AdmissionReview that kube-apiserver sends for a new pod."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": pod["metadata"]["namespace"],
            "name": pod["metadata"]["name"],
            "operation": "CREATE",
            "object": pod,
            "userInfo": {"username": "alice"},
        },
    }


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for something to come true."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


class Stage:
    """A running process, and hands to reach it and the cluster it serves."""

    def __init__(self, server: ApiServer, process: Process, client: Client, certs: Path) -> None:
        self.server, self.process, self.client = server, process, client
        self.certs = certs
        self.http = httpx.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE)

    async def close(self) -> None:
        await self.http.aclose()
        await self.client.close()

    # --- the cluster -----------------------------------------------------------------------------

    async def add_node(self, name: str, cpu: str = "4", **metadata: Any) -> None:
        capacity = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
        status = {"allocatable": capacity, "capacity": capacity}
        document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}
        await self.client.create_raw(resource_of(Node), "", {**document, "status": status})
        if not (await self.client.get(Node, "", name)).status.allocatable:
            await self.client.patch_status(Node, "", name, {"status": status})
        await self._known(Node, name, lambda node: bool(node.status.allocatable))

    async def _known(self, type_: type[T], name: str, wanted: Callable[[T], bool]) -> None:
        """Wait until the process knows an object of the cluster, if it follows its type by now."""
        followed = [store for store in self.process.cluster.stores if store.type is type_ and store.synced]
        await until(
            lambda: all(
                any(each.metadata.name == name and wanted(each) for each in store) for store in followed
            )
        )

    async def add_pod(self, name: str, cpu: str = "500m", **metadata: Any) -> Document:
        document = pod_document(name, cpu, **metadata)
        pod = await self.client.create_raw(resource_of(Pod), document["metadata"]["namespace"], document)
        pods = self.process.cluster.store(Pod)
        await until(lambda: any(known.metadata.uid == pod["metadata"]["uid"] for known in pods))
        return pod

    async def delete_pod(self, name: str) -> None:
        await self.client.delete(Pod, "default", name, grace_period_seconds=0)

    async def report_usage(self, node: str, status: Document) -> None:
        resource = resource_of(NodeMetric)
        metric = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": node}}
        await self.client.create_raw(resource, "", {**metric, "spec": {}})
        await self.client.patch_status(NodeMetric, "", node, {"status": status})
        await self._known(NodeMetric, node, lambda metric: metric.status.update_time is not None)

    # --- the process -----------------------------------------------------------------------------

    @property
    def extender(self) -> Extender:
        return extender_of(self.process)

    @property
    def profiles(self) -> Profiles:
        return self.process.part(ExtenderPart).profiles

    @property
    def observers(self) -> Observers:
        return self.process.part(ExtenderPart).observers

    @property
    def chains(self) -> Mapping[str, Chain]:
        return self.process.part(AdmissionPart).chains

    def url(self, part: str) -> str:
        return self.process.listeners[part].url

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.http.get(self.url("debug") + path, **options)

    async def call(self, verb: str, body: bytes | Document) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        return await self.http.post(
            f"{self.url('extender')}/extender/{verb}", content=content, headers=headers
        )

    async def filter(self, pod: Document, *names: str) -> Document:
        answer: Document = (await self.call("filter", {"Pod": pod, "NodeNames": list(names)})).json()
        return answer

    async def prioritize(self, pod: Document, *names: str) -> dict[str, int]:
        answer = await self.call("prioritize", {"Pod": pod, "NodeNames": list(names)})
        return {item["Host"]: item["Score"] for item in answer.json()}

    async def bind(self, pod: Document, node: str) -> str:
        """Return the error, empty when the pod is bound."""
        error: str = (await self.call("bind", binding(pod, node))).json()["Error"]
        return error

    async def review(self, body: bytes | Document, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with httpx.AsyncClient(verify=self.trust(), trust_env=False, timeout=PATIENCE) as client:
            return await client.post(
                f"{self.url('admission')}/mutate-pod",
                content=content,
                headers={"content-type": "application/json", **headers},
            )

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=certificates.ca_bundle(self.certs).decode())

    # --- what must always hold -------------------------------------------------------------------

    async def assert_memory_equals_a_rebuild(self) -> None:
        """Wait until everything that is known of nodes is what a fresh view of the API objects gives."""
        fresh = Cluster()
        assert len(fresh.nodes) == 0
        async with Informers(fresh, self.client) as informers:
            await informers.wait_synced(PATIENCE)
            ours = self.process.cluster
            try:
                await until(lambda: picture(ours) == picture(fresh))
            except TimeoutError:
                mine, rebuilt = picture(ours), picture(fresh)
                differ = {
                    name: (mine.get(name), rebuilt.get(name))
                    for name in mine.keys() | rebuilt.keys()
                    if mine.get(name) != rebuilt.get(name)
                }
                raise AssertionError(f"known and rebuilt, by node: {differ}") from None

    def assert_nothing_is_left_over(self) -> None:
        """Nothing is assumed, waiting or under way."""
        extender = self.extender
        assert [attempt.pod.metadata.key for attempt in extender.attempts if attempt.binding_to] == []
        assert len(extender.handle.waiting_pods) == 0
        assumed = [p.metadata.key for p in every_placed_pod(self.process.cluster) if _assumed(self, p)]
        assert assumed == []


def _assumed(stage: Stage, pod: Pod) -> bool:
    return stage.process.cluster.nodes.is_assumed(pod.metadata.uid)


def every_placed_pod(cluster: Cluster) -> list[Pod]:
    """Return the pods that a cluster's node table counts, assumed ones included."""
    table = cluster.nodes
    return [pod for row in _rows(cluster).values() for pod in table.pods_on(row)]


def _rows(cluster: Cluster) -> dict[str, int]:
    table = cluster.nodes
    names = {node.metadata.name for node in cluster.store(Node)}
    names |= {pod.spec.node_name for pod in cluster.store(Pod) if pod.spec.node_name}
    rows = {name: table.row_of(name) for name in sorted(names)}
    return {name: row for name, row in rows.items() if row is not None}


def picture(cluster: Cluster) -> dict[str, Any]:
    """Return all columns of a cluster's node table by node and resource, and who is on which node."""
    table = cluster.nodes
    resources = table.resources.names
    found = {}
    for name, row in _rows(cluster).items():
        amounts = {
            resource: (int(table.allocatable[row, column]), int(table.requested[row, column]))
            for column, resource in enumerate(resources)
        }
        found[name] = {
            "present": bool(table.present[row]),
            "amounts": {resource: both for resource, both in amounts.items() if any(both)},
            "nonzero": table.nonzero_requested[row].tolist(),
            "pods": sorted(pod.metadata.uid for pod in table.pods_on(row)),
        }
    return found


def binding(pod: Document, node: str) -> Document:
    """Return the body of a bind call."""
    meta = pod["metadata"]
    return {
        "PodName": meta["name"],
        "PodNamespace": meta["namespace"],
        "PodUID": meta["uid"],
        "Node": node,
    }


@asynccontextmanager
async def serving(
    folder: Path, *, server: ApiServer | None = None, ready: bool = True, **changes: Any
) -> AsyncIterator[Stage]:
    """Run a process on an API server (a new one with all CRDs, unless one is given)."""
    own = server is None
    server = server or ApiServer(port=free_port(), crds=CRDS)
    await server.start()
    try:
        process = serve_process(service_settings(server.url, folder, **changes))
        client = Client(Connection.to(Access(server.url)))
        stage = Stage(server, process, client, folder / "certs")
        try:
            await process.start()
            if ready:
                await process.wait_ready(PATIENCE)
            yield stage
        finally:
            await process.stop()
            await stage.close()
    finally:
        if own:
            await server.stop()
