"""`koordpy why --descheduling` and `koordpy descheduler rounds`, on a worker that runs rounds."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from koordpy.cli import cli
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.compose.parts.descheduler import DeschedulerPart
from koordpy.embedded.apiserver import ApiServer
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
    one = await shown(url, "descheduler", "rounds", "1")
    assert "nodes: 1 source, 1 bothLow" in one
    assert "LowNodeLoad (Balance, koord-descheduler)" in one
    assert "candidate" in one
    whole = await document(url, "descheduler", "rounds", "1")
    assert whole["runs"][0]["details"][0]["nodes"]["hot"]["nodeClass"] == "source"
    assert (await run(url, "descheduler", "rounds", "1", "--follow")).exit_code == 2
    assert (await run(url, "descheduler", "rounds", "999999")).exit_code == 1
