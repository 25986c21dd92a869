"""The network of a simulation behaves as one, where it has to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from koordpy.api.core import Namespace, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib import simulated_time
from koordpy.lib.http1 import StreamingResponse
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import PATIENCE
from tests.integration.service.stage import pod_document, until


def test_watches_last_for_years() -> None:
    async def program(loop: SimulatedLoop) -> None:
        server = ApiServer(clock=SimulatedClock(loop, datetime(2026, 3, 1, tzinfo=UTC)))
        await server.load()
        opened = 0
        channel = ServerChannel(server)

        @asynccontextmanager
        async def stream(method: str, path: str, **options: Any) -> AsyncIterator[StreamingResponse]:
            nonlocal opened
            opened += 1
            async with ServerChannel(server).stream(method, path, **options) as response:
                yield response

        channel.stream = stream  # type: ignore[method-assign]
        cluster = Cluster()
        pods = cluster.store(Pod)
        async with Informers(cluster, Client(channel)):
            await asyncio.sleep(5 * 365 * 86400.0)
            await Client(channel).create_raw(resource_of(Pod), "default", pod_document("p"))
            await asyncio.sleep(0.001)
            assert len(pods) == 1
        assert opened == 1

    simulated_time.run(program)


async def test_a_watch_that_is_cut_is_opened_again() -> None:
    server = ApiServer()
    await server.load()
    client = Client(ServerChannel(server))
    cluster = Cluster()
    pods = cluster.store(Pod)
    assert await client.get(Namespace, "", "default")
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(PATIENCE)
        server.cut_watches()
        server.compact()
        await client.create_raw(resource_of(Pod), "default", pod_document("p"))
        await until(lambda: len(pods) == 1)
