"""The stage of each test: an API server of its own, or the real control plane emptied of nodes and pods."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from koordpy.api.core import Event, Node, Pod, PodDisruptionBudget, PriorityClass
from koordpy.api.meta import KubeObject
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import NotFound
from koordpy.embedded.apiserver import ApiServer
from tests.integration.scheduler.stage import Stage

if TYPE_CHECKING:
    from tests.e2e.controlplane.plane import ControlPlane


@pytest.fixture(scope="session")
def plane(request: pytest.FixtureRequest) -> "Iterator[ControlPlane | None]":
    """The real control plane, where `--control-plane=real` asks for it."""
    if request.config.getoption("--control-plane") != "real":
        yield None
        return
    from tests.e2e.controlplane.plane import ControlPlane

    with ControlPlane() as running:
        yield running


@pytest.fixture
async def stage(plane: "ControlPlane | None") -> AsyncIterator[Stage]:
    """A cluster without nodes and pods, and a scheduler that is not started yet."""
    if plane is not None:
        client = Client(Connection.from_kubeconfig(str(plane.kubeconfig)))
        stage = Stage(client, plane)
        try:
            yield stage
        finally:
            await stage.stop()
            await _emptied(client)
            await client.close()
        return
    async with ApiServer() as server:
        client = Client(Connection.to(Access(server.url)))
        stage = Stage(client)
        try:
            yield stage
        finally:
            await stage.stop()
            await client.close()


async def _emptied(client: Client) -> None:
    async def deleted(obj: KubeObject) -> None:
        with suppress(NotFound):
            meta = obj.metadata
            await client.delete(type(obj), meta.namespace, meta.name, grace_period_seconds=0)

    mine = [
        item
        for item in await client.list_all(PriorityClass)
        if item.metadata.name in ("high", "mid", "low", "never")
    ]
    objects = [
        *await client.list_all(Pod),
        *await client.list_all(Node),
        *await client.list_all(Event),
        *await client.list_all(PodDisruptionBudget),
        *mine,
    ]
    await asyncio.gather(*(deleted(obj) for obj in objects))
