"""Starting, running and stopping a service while the API server is unreachable, slow or wrong."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer, Fault
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE
from tests.integration.service.stage import CRDS, service_settings, serving, until
from tests.processes import serve_process
from tests.servers.raw import Exchange, RawServer


async def test_a_service_waits_for_an_api_server_that_comes_later(tmp_path: Path) -> None:
    server = ApiServer(port=free_port(), crds=CRDS)
    service = serve_process(service_settings(server.url, tmp_path))
    await service.start()
    try:
        with pytest.raises(TimeoutError, match="Node is"):
            await service.wait_ready(0.2)
        assert service.health.failures(service.health.live) == {}
        assert "informer-Node" in service.health.failures(service.health.ready)
        await server.start()
        await service.wait_ready(PATIENCE)
        await until(lambda: _failures(service) == {})  # resources that need not be there are listed later
    finally:
        await service.stop()
        await server.stop()


async def test_a_service_can_be_stopped_before_it_is_ready(tmp_path: Path) -> None:
    service = serve_process(service_settings("http://127.0.0.1:1", tmp_path))
    await service.start()
    waiting = asyncio.create_task(service.wait_ready())
    await asyncio.sleep(0)
    waiting.cancel()
    async with asyncio.timeout(PATIENCE):
        await service.stop()


async def test_credentials_that_are_refused_are_named(tmp_path: Path) -> None:
    server = ApiServer(crds=CRDS)
    server.faults = lambda method, path: Fault(status=403) if path.endswith("/nodes") else None
    async with serving(tmp_path, server=server, ready=False) as stage:
        await until(lambda: "denied" in _failures(stage.process).get("informer-Node", ""))
        assert "403" in _failures(stage.process)["informer-Node"]
    await server.stop()


def _failures(service: Process) -> dict[str, str]:
    return service.health.failures(service.health.ready)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"kind":"Status"}', b"<html>proxy</html>", b"\xff" * 99]
)
async def test_rubbish_from_the_api_server_is_no_list(tmp_path: Path, body: bytes) -> None:
    async def rubbish(exchange: Exchange) -> None:
        await exchange.reply(200, body)

    async with RawServer(rubbish) as server:
        service = serve_process(service_settings(server.url, tmp_path))
        await service.start()
        try:
            await until(lambda: len(server.requests) > 8)
            assert not service.cluster.store(Node).synced
            assert service.health.failures(service.health.live) == {}
        finally:
            await service.stop()


@pytest.mark.parametrize("seed", range(3))
async def test_a_view_of_the_cluster_recovers_from_any_trouble(tmp_path: Path, seed: int) -> None:
    """Lists and watches fail, disconnect and expire at random while objects are created and deleted."""
    rng = random.Random(seed)
    async with serving(tmp_path, parts=["extender"]) as stage:

        def trouble(method: str, path: str) -> Fault | None:
            if method != "GET" or rng.random() < 0.6:
                return None
            return rng.choice([Fault(status=500), Fault(status=410), Fault(cut=True), Fault(delay=0.01)])

        stage.server.faults = trouble
        for number in range(30):
            name = f"n{number % 10}"
            what = rng.random()
            if what < 0.5:
                await _create(stage.client, name)
            elif what < 0.7:
                await _delete(stage.client, name)
            elif what < 0.9:
                stage.server.cut_watches()
            else:
                stage.server.compact()
            await asyncio.sleep(0.005)
        stage.server.faults = None
        stage.server.cut_watches()
        await stage.assert_memory_equals_a_rebuild()
        assert len(stage.process.cluster.store(Pod)) == 0


async def _create(client: Client, name: str) -> None:
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    with suppress(AlreadyExists):
        await client.create_raw(resource_of(Node), "", document)


async def _delete(client: Client, name: str) -> None:
    with suppress(NotFound):
        await client.delete(Node, "", name)
