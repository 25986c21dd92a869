"""The stage of each test: an API server of its own, or the real control plane without anything left on it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from koordpy import data
from koordpy.api.core import Event, Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.reservation import Reservation
from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound
from koordpy.embedded.apiserver import ApiServer
from tests.integration.reservations.stage import Stage

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
        running.install_crds()
        yield running


@pytest.fixture
async def stage(plane: "ControlPlane | None", tmp_path: Path) -> AsyncIterator[Stage]:
    """A cluster without nodes; neither scheduler nor koordpy run yet."""
    if plane is not None:
        stage = Stage({"kubeconfig": str(plane.kubeconfig)}, tmp_path, plane=plane)
        try:
            yield stage
        finally:
            await stage.stop()
            await emptied(stage.client)
            await stage.client.close()
        return
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        stage = Stage({"server": server.url}, tmp_path, server=server)
        try:
            yield stage
        finally:
            await stage.stop()
            await stage.client.close()


async def emptied(client: Client) -> None:
    """Delete what tests create."""

    async def deleted(obj: KubeObject) -> None:
        with suppress(NotFound):
            meta = obj.metadata
            await client.delete(type(obj), meta.namespace, meta.name, grace_period_seconds=0)

    for type_ in (Reservation, Pod, Node, Event):
        await asyncio.gather(*map(deleted, await client.list_all(type_)))
