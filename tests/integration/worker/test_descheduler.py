"""The descheduler of a worker: whole processes against an API server, one of which acts."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import data
from koordpy.api.core import Event, Lease
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.compose.part import PartError
from koordpy.compose.parts.descheduler import DeschedulerPart
from koordpy.compose.process import Process
from koordpy.descheduling.explain.decisions import Round
from koordpy.embedded.apiserver import ApiServer, Fault
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE
from tests.integration.descheduling.test_low_node_load_evicts import World
from tests.integration.service.stage import CRDS, until
from tests.integration.worker.stage import worker_settings, working
from tests.processes import worker_process

SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES") or Path(__file__).parents[4] / "shared" / "samples")
SHIPPED = SAMPLES / "koordinator" / "descheduler-config.yaml"

CONFIG: dict[str, Any] = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "deschedulingInterval": "100ms",
    "leaderElection": {
        "leaderElect": True,
        "resourceName": "koord-descheduler",
        "resourceNamespace": "default",
        "leaseDuration": "3s",
        "renewDeadline": "2s",
        "retryPeriod": "200ms",
    },
    "maxNoOfPodsToEvictTotal": 1,
    "profiles": [
        {
            "name": "koord-descheduler",
            "plugins": {
                "balance": {"enabled": [{"name": "LowNodeLoad"}]},
                "evict": {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultEvictor"}]},
                "filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultEvictor"}]},
            },
            "pluginConfig": [
                {
                    "name": "LowNodeLoad",
                    "args": {
                        "lowThresholds": {"cpu": 40},
                        "highThresholds": {"cpu": 70},
                        "anomalyCondition": {"consecutiveAbnormalities": 1},
                    },
                }
            ],
        }
    ],
}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(port=free_port(), crds=CRDS) as made:
        yield made


@pytest.fixture
async def world(server: ApiServer) -> AsyncIterator[World]:
    client = Client(Connection.to(Access(server.url)))
    made = World(client)
    await made.fill()
    yield made
    await client.close()


@pytest.fixture
def make(server: ApiServer, tmp_path: Path) -> Callable[..., Process]:
    """Return a maker of workers: changes of the descheduler's file, and settings of the worker."""

    def worker(changes: dict[str, Any] | None = None, **settings: Any) -> Process:
        file = tmp_path / "descheduler.yaml"
        file.write_text(yaml.safe_dump({**CONFIG, **(changes or {})}))
        found = worker_settings(server.url, descheduler={"config": str(file), **settings})
        return worker_process(found, "descheduler")

    return worker


def rounds_of(worker: Process) -> deque[Round]:
    return worker.part(DeschedulerPart).descheduler.decisions.rounds


def rounds(worker: Process) -> int:
    return len(rounds_of(worker))


async def another_round(worker: Process) -> None:
    kept = rounds_of(worker)
    last = kept[-1]
    await until(lambda: kept[-1] is not last)


async def test_one_of_two_workers_acts_and_the_other_takes_over(
    world: World, make: Callable[..., Process]
) -> None:
    first, second = make(), make()
    async with working(second):
        await until(lambda: rounds(second) > 0)
        async with working(first):
            await another_round(second)
            await another_round(second)
            assert rounds(first) == 0
            lease = await world.client.get(Lease, "default", "koord-descheduler")
            assert lease.spec.holder_identity
    async with working(make()) as health:
        assert (await health.get("/livez")).text == "ok"
    assert len(await world.evicted()) >= 1
    third, fourth = make(), make()
    async with working(fourth):
        async with working(third):
            await until(lambda: rounds(third) + rounds(fourth) > 0)
            leader, waiting = (third, fourth) if rounds(third) else (fourth, third)
            assert rounds(waiting) == 0
            if leader is fourth:
                return
        await until(lambda: rounds(fourth) > 0)


async def test_the_lease_is_given_up_at_the_end(world: World, make: Callable[..., Process]) -> None:
    worker = make()
    async with working(worker):
        await until(lambda: rounds(worker) > 0)
    lease = await world.client.get(Lease, "default", "koord-descheduler")
    assert not lease.spec.holder_identity


async def test_leader_election_can_be_switched_off(
    world: World, server: ApiServer, make: Callable[..., Process], tmp_path: Path
) -> None:
    make()
    found = worker_settings(
        server.url, descheduler={"config": str(tmp_path / "descheduler.yaml")}, leaderElect=False
    )
    worker = worker_process(found, "descheduler")
    async with working(worker):
        await until(lambda: rounds(worker) > 0)
    assert await world.client.list_all(Lease) == []


async def test_a_single_round_ends_the_worker(world: World, make: Callable[..., Process]) -> None:
    worker = make({"deschedulingInterval": "0s"})
    async with asyncio.timeout(PATIENCE):
        await worker.run()
    assert rounds(worker) == 1
    assert len(await world.evicted()) == 1
    [event] = await world.client.list_all(Event)  # written before the worker ended
    assert event.reason == "Descheduled"
    assert not worker.listeners["debug"].is_listening


@pytest.mark.parametrize(("file", "setting", "evicts"), [(False, True, 0), (True, None, 0), (True, False, 1)])
async def test_the_setting_overrides_the_files_dry_run(
    world: World, make: Callable[..., Process], file: bool, setting: bool | None, evicts: int
) -> None:
    worker = make({"deschedulingInterval": "0s", "dryRun": file}, dryRun=setting)
    async with asyncio.timeout(PATIENCE):
        await worker.run()
    [only] = rounds_of(worker)
    assert only.dry_run is (setting if setting is not None else file)
    assert len(only.evictions) == 1
    assert len(await world.evicted()) == evicts


@pytest.mark.skipif(not SHIPPED.exists(), reason=f"{SHIPPED} is missing (set KOORDPY_SAMPLES)")
async def test_koordinators_shipped_configuration_runs_unchanged(
    world: World, server: ApiServer, tmp_path: Path
) -> None:
    shipped = yaml.safe_load(SHIPPED.read_text())["data"]["koord-descheduler-config"]
    file = tmp_path / "shipped.yaml"
    file.write_text(shipped)
    found = worker_settings(server.url, descheduler={"config": str(file)}, leaderElect=False)
    worker = worker_process(found, "descheduler")
    async with working(worker):
        await until(lambda: rounds(worker) > 0)
    assert not rounds_of(worker)[0].error
    assert not await world.evicted()


async def test_health_names_what_is_not_known_yet(tmp_path: Path) -> None:
    crds = [crd for crd in sorted(data.deploy("crds").glob("*.yaml")) if "nodemetrics" not in crd.name]
    file = tmp_path / "descheduler.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    async with ApiServer(crds=crds) as server:
        found = worker_settings(server.url, descheduler={"config": str(file)})
        worker = worker_process(found, "descheduler")
        async with working(worker) as health:
            wanted = "CRD not installed (nodemetrics.slo.koordinator.sh)"
            async with asyncio.timeout(PATIENCE):
                while wanted not in (answer := await health.get("/readyz")).text:
                    await asyncio.sleep(0.02)
            assert answer.status_code == 503
            [failed] = [line for line in answer.text.splitlines() if line.startswith("[-]informer")]
            assert failed.startswith("[-]informer-NodeMetric failed: ")
            assert failed.endswith("1 more check waits for this: informers")
            assert (await health.get("/livez")).text == "ok"
            assert rounds(worker) == 0


async def test_rounds_go_on_after_the_api_server_was_away(
    world: World, server: ApiServer, make: Callable[..., Process]
) -> None:
    worker = make({"dryRun": True})
    async with working(worker):
        await until(lambda: rounds(worker) > 0)
        server.faults = lambda method, path: Fault(cut=True) if "leases" in path else None
        await another_round(worker)
        server.faults = None
        server.cut_watches()
        await another_round(worker)
        await another_round(worker)


async def test_the_end_does_not_wait_for_an_api_server_that_is_away(
    world: World, server: ApiServer, make: Callable[..., Process]
) -> None:
    worker = make()
    async with working(worker):
        await until(lambda: rounds(worker) > 0)
        await server.stop()
    assert not worker.listeners["debug"].is_listening
    await server.start()


async def test_a_descheduler_without_its_file_is_refused() -> None:
    with pytest.raises(PartError, match=r"worker\.descheduler\.config"):
        worker_process(worker_settings("http://127.0.0.1:1"), "descheduler")
