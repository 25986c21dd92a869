"""ElasticQuotas on an embedded API server, and evaluators that charge pods to them."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from koordpy import data
from koordpy.admission.chain import Chain
from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.admission.review import review_waiting
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.server import Fault
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE

Document = dict[str, Any]

PREFIX = "quota.scheduling.koordinator.sh/"
CHILD_REQUEST = f"{PREFIX}child-request"
NAME = "validate-pod.EvaluateQuota"
QUOTAS = resource_of(ElasticQuota)


async def no_pause(_: float) -> None:
    """Take the place of asyncio.sleep between the tries of a client."""
    await asyncio.sleep(0)


def pod_of(quota: str, cpu: str = "1", name: str = "p") -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {f"{PREFIX}name": quota}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
    }


class Replica:
    """One process's pod validating webhook, with its own view of the quotas."""

    def __init__(self, chain: Chain, cluster: Cluster) -> None:
        self.chain, self.cluster = chain, cluster

    async def ask(self, pod: Document, **request: Any) -> Document:
        """Return the response to the creation of a pod."""
        sent = {
            "uid": "u",
            "operation": "CREATE",
            "namespace": "default",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": pod,
        } | request
        answer = await review_waiting(self.chain, json.dumps({"request": sent}).encode())
        response: Document = json.loads(answer)["response"]
        return response

    async def refusal(self, pod: Document, **request: Any) -> str:
        """Return why a pod is refused, empty if it is not."""
        response = await self.ask(pod, **request)
        return str(response["status"].get("message", ""))


class World:
    """An API server with quotas. `writes` counts what was asked of it; `fault` decides what goes wrong."""

    def __init__(self, server: ApiServer, client: Client, stack: AsyncExitStack) -> None:
        self.server, self.client, self._stack = server, client, stack
        self.fault: Callable[[str], Fault | None] = lambda _: None
        self.writes = 0
        server.faults = self._on_request

    def _on_request(self, method: str, path: str) -> Fault | None:
        if "/elasticquotas/" not in path or method not in ("PATCH", "GET"):
            return None
        self.writes += method == "PATCH"
        return self.fault(method)

    async def add_quota(self, name: str, cpu: str, used: str = "", **annotations: str) -> None:
        """Create a quota in the default namespace."""
        own = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()}
        if used:
            own[CHILD_REQUEST] = json.dumps({"cpu": used})
        document = {
            "apiVersion": QUOTAS.api_version,
            "kind": QUOTAS.kind,
            "metadata": {"name": name, "namespace": "default", "annotations": own},
            "spec": {"max": {"cpu": cpu}},
        }
        await self.client.create_raw(QUOTAS, "default", document)

    async def set_used(self, name: str, cpu: str) -> None:
        """Charge a quota behind every evaluator's back."""
        annotations = {CHILD_REQUEST: json.dumps({"cpu": cpu})}
        await self.client.patch(ElasticQuota, "default", name, {"metadata": {"annotations": annotations}})

    async def used(self, name: str) -> str | None:
        """Return how much cpu a quota's annotation says is used."""
        quota = await self.client.get(ElasticQuota, "default", name)
        amounts: dict[str, str] = json.loads(quota.metadata.annotations.get(CHILD_REQUEST, "{}"))
        return amounts.get("cpu")

    def new_client(self) -> Client:
        client = Client(Connection.to(Access(self.server.url)), rng=random.Random(1), sleep=no_pause)
        self._stack.push_async_callback(client.close)
        return client

    async def replica(self, *, follows: bool = True, **args: Any) -> Replica:
        """Start another replica; one that does not follow the quotas sees them as they are now for ever."""
        client, cluster = self.new_client(), Cluster()
        entry = HandlerEntry(name=NAME, args=args)
        gates = feature_gates({"EnableQuotaAdmission": True})
        handle = Handle(cluster, gates, random.Random(1), client=client)
        chain = build_chains(AdmissionConfig(enabled=[entry]), handle)["/validate-pod"]
        if follows:
            informers = await self._stack.enter_async_context(Informers(cluster, client))
            await informers.wait_synced(PATIENCE)
        else:
            for quota in await client.list_all(ElasticQuota):
                cluster.store(ElasticQuota).apply(quota)
        return Replica(chain, cluster)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """Run an API server that knows ElasticQuotas."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer(port=free_port(), crds=[data.deploy("crds")]))
        client = Client(Connection.to(Access(server.url)))
        stack.push_async_callback(client.close)
        yield World(server, client, stack)
