"""Root quotas of ElasticQuotaProfiles, written by a worker on an embedded API server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from koordpy.api.core import Node
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import NotFound
from koordpy.embedded.apiserver import ApiServer
from tests.eventually import PATIENCE
from tests.integration.service.stage import CRDS
from tests.processes import worker_process

from .stage import create, worker_settings, working

PREFIX = "quota.scheduling.koordinator.sh/"


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(crds=CRDS) as made:
        yield made


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    made = Client(Connection.to(Access(server.url)))
    yield made
    await made.close()


def running(server: ApiServer) -> Any:
    controllers = {"selection": ["quotaprofile"]}
    found = worker_settings(server.url, leaderElect=False, controllers=controllers)
    return working(worker_process(found, "controllers"))


async def node(client: Client, name: str, cpu: str, pool: str) -> None:
    amounts = {"cpu": cpu, "memory": "8Gi"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await create(client, resource_of(Node), {"metadata": {"name": name, "labels": {"pool": pool}}}, status)


async def profile(client: Client, **spec: Any) -> None:
    selected = {"quotaName": "root-a", "nodeSelector": {"matchLabels": {"pool": "a"}}, **spec}
    document = {"metadata": {"name": "pool-a", "namespace": "default"}, "spec": selected}
    await create(client, resource_of(ElasticQuotaProfile), document)


async def quota(client: Client, cpu: str) -> ElasticQuota:
    """Wait until the root quota guarantees so many cores."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                found = await client.get(ElasticQuota, "default", "root-a")
            except NotFound:
                pass
            else:
                if found.spec.min.get("cpu") == cpu:
                    return found
            await asyncio.sleep(0.02)


async def test_a_profile_gets_its_root_quota(server: ApiServer, client: Client) -> None:
    await node(client, "n1", "8", "a")
    await node(client, "n2", "4", "a")
    await node(client, "other", "100", "b")
    async with running(server):
        await profile(client, quotaLabels={f"{PREFIX}is-parent": "true"})
        made = await quota(client, "12")
        stored = await client.get(ElasticQuotaProfile, "default", "pool-a")
    tree = stored.metadata.labels[f"{PREFIX}tree-id"]
    assert made.metadata.labels == {
        f"{PREFIX}profile": "pool-a",
        f"{PREFIX}is-parent": "true",
        f"{PREFIX}is-root": "true",
        f"{PREFIX}tree-id": tree,
    }
    assert made.spec.min == {"cpu": "12", "memory": "16Gi"}
    assert made.metadata.annotations[f"{PREFIX}total-resource"] == '{"cpu":"12","memory":"16Gi"}'


async def test_a_worker_that_starts_again_takes_over_what_changed_meanwhile(
    server: ApiServer, client: Client
) -> None:
    await node(client, "n1", "8", "a")
    async with running(server):
        await profile(client)
        await quota(client, "8")
    labels = {"metadata": {"labels": {"team": "mine", f"{PREFIX}is-root": "false"}}}
    await client.patch(ElasticQuota, "default", "root-a", labels)
    await node(client, "n2", "4", "a")
    async with running(server):
        made = await quota(client, "12")
    assert made.metadata.labels["team"] == "mine"
    assert made.metadata.labels[f"{PREFIX}is-root"] == "true"


async def test_a_tree_id_that_a_user_gave_is_kept(server: ApiServer, client: Client) -> None:
    async with running(server):
        document = {
            "metadata": {"name": "pool-a", "namespace": "default", "labels": {f"{PREFIX}tree-id": "mine"}},
            "spec": {"quotaName": "root-a", "nodeSelector": {}},
        }
        await create(client, resource_of(ElasticQuotaProfile), document)
        made = await quota(client, "0")
    assert made.metadata.labels[f"{PREFIX}tree-id"] == "mine"
