"""`koordpy why --descheduling` and `koordpy descheduler rounds`, on a worker that runs rounds."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from koordpy.api.core import Lease
from koordpy.api.meta import ObjectMeta, format_micro_time
from koordpy.cli import cli
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.commands import debug_client
from koordpy.compose.parts.descheduler import DeschedulerPart
from koordpy.embedded.apiserver import ApiServer
from koordpy.settings import WORKER_DEBUG_PORT
from tests.e2e.controlplane.process import free_port
from tests.integration.descheduling.test_low_node_load_evicts import World
from tests.integration.service.stage import CRDS, until
from tests.integration.worker.stage import worker_settings, working
from tests.integration.worker.test_descheduler import CONFIG
from tests.processes import worker_process


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    """The debug API of a worker in dry run, after its first round."""
    async with ApiServer(crds=CRDS) as server:
        client = Client(Connection.to(Access(server.url)))
        world = World(client)
        await world.fill()
        await world.make_pod("fresh")
        file = tmp_path / "descheduler.yaml"
        file.write_text(yaml.safe_dump({**CONFIG, "dryRun": True}))
        worker = worker_process(
            worker_settings(server.url, leaderElect=False, descheduler={"config": str(file)}), "descheduler"
        )
        async with working(worker) as http:
            rounds = worker.part(DeschedulerPart).descheduler.decisions.rounds
            await until(lambda: bool(rounds) and rounds[0].ended is not None)
            yield str(http.base_url)
        await client.close()


async def run(url: str, *words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, cli, [*words, "--debug-server", url])


async def shown(url: str, *words: str) -> str:
    found = await run(url, *words)
    assert found.exit_code == 0, found.output
    return found.output


async def document(url: str, *words: str) -> Any:
    return json.loads(await shown(url, *words, "-o", "json"))


async def test_a_node_is_explained(url: str) -> None:
    text = await shown(url, "why", "--descheduling", "hot")
    assert "node hot: ready; koord-descheduler" in text
    assert "class source, abnormal" in text
    assert "dryRun default/web-" in text
    assert "node is overutilized, node cpu usage(90.00%)>threshold(70.00%)" in text
    assert "not evicted: default/fresh: LowNodeLoad: the NodeMetric of hot has no usage of it" in text
    assert "now: the filters allow evicting 5 of 5 pods" in text
    assert (await document(url, "why", "--descheduling", "hot"))["node"] == "hot"


@pytest.mark.parametrize("words", [("default/fresh",), ("fresh", "-n", "default")])
async def test_a_pod_is_explained(url: str, words: tuple[str, ...]) -> None:
    text = await shown(url, "why", "--descheduling", *words)
    assert "pod default/fresh on hot" in text
    assert "class source, abnormal" in text
    assert "not evicted: default/fresh: LowNodeLoad: the NodeMetric of hot has no usage of it" in text
    assert "now: the filters of koord-descheduler allow evicting it" in text


async def test_the_default_is_the_workers_address_if_it_answers(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told() -> Result:
        return await asyncio.to_thread(CliRunner().invoke, cli, ["descheduler", "rounds"], obj={})

    assert f"http://127.0.0.1:{WORKER_DEBUG_PORT}" == debug_client.WORKER_URL
    other = f"http://127.0.0.1:{free_port()}"
    for worker, process in ((url, other), (other, url)):
        monkeypatch.setattr(debug_client, "WORKER_URL", worker)
        monkeypatch.setattr(debug_client, "DEBUG_URL", process)
        found = await told()
        assert (found.exit_code, found.output.split()[0]) == (0, "round"), found.output
    monkeypatch.setattr(debug_client, "DEBUG_URL", other)
    assert f"(a worker's default is {other})" in (await told()).output


async def test_the_number_of_rounds_can_be_chosen(url: str) -> None:
    """All rounds of the dry run try to evict the same pods."""
    while len(await document(url, "descheduler", "rounds")) < 5:
        await asyncio.sleep(0.1)
    assert len((await document(url, "why", "--descheduling", "hot"))["rounds"]) == 3
    assert len((await document(url, "why", "--descheduling", "hot", "--limit", "1"))["rounds"]) == 1
    pod = await document(url, "why", "--descheduling", "default/fresh", "--limit", "5")
    assert (len(pod["rounds"]), pod["quietRounds"] >= 4) == (1, True)
    assert "other remembered rounds tried nothing" in await shown(
        url, "why", "--descheduling", "default/fresh"
    )
    assert (await run(url, "why", "default/fresh", "--limit", "1")).exit_code == 2


async def test_what_does_not_exist_is_an_error(url: str) -> None:
    found = await run(url, "why", "--descheduling", "nowhere")
    assert found.exit_code == 1
    assert "node nowhere does not exist, and no remembered round names it" in found.output
    assert (await run(url, "why", "--descheduling")).exit_code == 2
    assert (await run(url, "why", "--descheduling", "hot", "--history")).exit_code == 2


async def test_rounds_are_listed_and_shown(url: str) -> None:
    table = await shown(url, "descheduler", "rounds", "--limit", "1")
    assert table.split()[0] == "round"
    assert len(table.splitlines()) == 2
    assert len(await document(url, "descheduler", "rounds", "--limit", "1", "--node", "hot")) == 1
    assert await document(url, "descheduler", "rounds", "--plugin", "Nothing") == []
    for option, what in (("--node", "node"), ("--pod", "pod"), ("--plugin", "plugin")):
        text = await shown(url, "descheduler", "rounds", option, "nowhere")
        assert text == f"no remembered round concerns {what} nowhere\n"
    one = await shown(url, "descheduler", "rounds", "1")
    assert "nodes: 1 source, 1 bothLow" in one
    assert "LowNodeLoad (Balance, koord-descheduler)" in one
    assert "candidate" in one
    whole = await document(url, "descheduler", "rounds", "1")
    assert whole["runs"][0]["details"][0]["nodes"]["hot"]["nodeClass"] == "source"
    assert (await run(url, "descheduler", "rounds", "1", "--follow")).exit_code == 2
    assert (await run(url, "descheduler", "rounds", "999999")).exit_code == 1


async def test_a_worker_that_waits_for_the_lease_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "koordpy.compose.election")
    async with ApiServer(crds=CRDS) as server:
        client = Client(Connection.to(Access(server.url)))
        now = format_micro_time(datetime.now(UTC))
        spec = Lease.Spec(
            holder_identity="other", lease_duration_seconds=3600, acquire_time=now, renew_time=now
        )
        await client.create(
            Lease(metadata=ObjectMeta(namespace="default", name="koord-descheduler"), spec=spec)
        )
        file = tmp_path / "descheduler.yaml"
        file.write_text(yaml.safe_dump(CONFIG))
        worker = worker_process(worker_settings(server.url, descheduler={"config": str(file)}), "descheduler")
        expected = "waiting for the Lease default/koord-descheduler, held by other"
        async with working(worker) as http:
            await until(lambda: bool(worker.part(DeschedulerPart).waiting()))
            url = str(http.base_url)
            rounds = await shown(url, "descheduler", "rounds")
            assert (
                rounds.replace("\n", " ").strip() == f"no round of the descheduler is remembered; {expected}"
            )
            assert f"[+]descheduler ok: {expected}\n" in await shown(url, "health", "--timeout", "60")
            await asyncio.sleep(0.5)  # more tries, and no more lines
        await client.close()
    assert caplog.messages.count(expected) == 1


async def test_a_process_without_a_descheduler_says_so() -> None:
    async with ApiServer(crds=CRDS) as server:
        found = worker_settings(server.url, leaderElect=False)
        gates = {"ColocationProfileController": True}
        worker = worker_process(found.model_copy(update={"feature_gates": gates}), "controllers")
        async with working(worker) as http:
            answer = await run(str(http.base_url), "descheduler", "rounds")
    assert answer.exit_code == 1
    assert "this process does not run the descheduler" in answer.output
