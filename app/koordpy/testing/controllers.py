"""Runs one controller against an API server in the test's process, to test its writes."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from koordpy.api.meta import KubeObject
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informers import Informers
from koordpy.controllers.interface import Controller, Handle
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.feature_gates import FeatureGates

C = TypeVar("C", bound=Controller)

Document = dict[str, Any]

PATIENCE = 60.0
"""The longest time in seconds that `run_until` waits."""


@dataclass(frozen=True)
class Running(Generic[C]):
    """A controller that is set up on a completely listed cluster."""

    controller: C
    handle: Handle

    async def create(self, type_: type[KubeObject], document: Mapping[str, Any]) -> None:
        """Create an object of the API server. Raises ApiError."""
        resource = resource_of(type_)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
        namespace = whole["metadata"].get("namespace", "")
        await self.handle.client.create_raw(resource, namespace, whole)

    async def get(self, type_: type[KubeObject], name: str, namespace: str = "") -> Document:
        """Return an object from the API server. Raises ApiError."""
        return await self.handle.client.get_raw(resource_of(type_), namespace, name)

    async def run_until(
        self, holds: Callable[[Document], bool], type_: type[KubeObject], name: str
    ) -> Document:
        """Run the controller until a cluster-scoped object satisfies a condition; return the object.

        Raises AssertionError with the object after a minute, and what `run` raises.
        """
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.controller.run())
            try:
                async with asyncio.timeout(PATIENCE):
                    while not holds(found := await self.get(type_, name)):
                        await asyncio.sleep(0.01)
            except TimeoutError:
                raise AssertionError(f"{type_.__name__} {name} stays {found}") from None
            finally:
                running.cancel()
        return found


@asynccontextmanager
async def running(
    controller: type[C],
    *objects: tuple[type[KubeObject], Mapping[str, Any]],
    args: Mapping[str, Any] | None = None,
    gates: Mapping[str, bool] | None = None,
    crds: Iterable[str | Path | Document] = (),
) -> AsyncIterator[Running[C]]:
    """Create a controller, set it up, and list all objects, given by type and document.

    The API server listens on loopback and stops with the block; `crds` are the CRDs that it serves. `args`
    are as in a configuration file. Raises ConfigError, FeatureGateError, ApiError.
    """
    async with ApiServer(crds=crds) as server:
        client = Client(Connection.to(Access(server.url)))
        try:
            cluster = Cluster()
            own = FeatureGates(controller.feature_gates, gates)
            handle = Handle(cluster, own, client, rng=random.Random(0))
            made = Running(controller.make(handle, args), handle)
            for type_, document in objects:
                await made.create(type_, document)
            made.controller.setup()
            async with Informers(cluster, client) as informers:
                await informers.wait_synced(PATIENCE)
                yield made
        finally:
            await client.close()
