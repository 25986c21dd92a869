"""`koordpy whatif --descheduler-config` and its endpoint: hypothetical rounds that change nothing."""

import asyncio
import json
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner, Result
from prometheus_client import REGISTRY

from koordpy.cli import cli
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.compose.parts.descheduler import DeschedulerPart
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer, Fault
from tests.integration.descheduling.test_low_node_load_evicts import World
from tests.integration.service.stage import CRDS, until
from tests.integration.worker.stage import worker_settings, working
from tests.integration.worker.test_descheduler import CONFIG
from tests.processes import worker_process

PATH = "/apis/v1/whatif/descheduling"


def config(evictor: str = "DefaultEvictor", profile: dict[str, Any] | None = None, **args: Any) -> str:
    """A configuration without a limit, whose LowNodeLoad has other arguments."""
    document = deepcopy(CONFIG)
    del document["maxNoOfPodsToEvictTotal"]
    [only] = document["profiles"]
    only.update(profile or {})
    only["plugins"]["evict"]["enabled"] = only["plugins"]["filter"]["enabled"] = [{"name": evictor}]
    only["pluginConfig"][0]["args"].update(args)
    if evictor == "MigrationController":
        # The pods' ReplicaSet does not exist.
        gates = ["ExpectedReplicas", "MaxUnavailablePerWorkload", "MaxMigratingPerWorkload"]
        migration = {"schedulerNames": ["koord-scheduler"], "skipEvictionGates": gates}
        only["pluginConfig"].append({"name": evictor, "args": migration})
    return yaml.safe_dump(document)


@dataclass
class Site:
    """A worker whose own configuration never evicts anything, and does not follow NodeMetrics."""

    server: ApiServer
    world: World
    worker: Process
    http: httpx.AsyncClient
    writes: list[str]

    async def ask(self, text: str, **query: Any) -> Any:
        answer = await self.http.post(PATH, content=text, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def run(self, *words: str) -> Result:
        where = ("--debug-server", str(self.http.base_url))
        return await asyncio.to_thread(CliRunner().invoke, cli, ["whatif", *words, *where])


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    writes: list[str] = []
    async with ApiServer(crds=CRDS) as server:
        client = Client(Connection.to(Access(server.url)))
        world = World(client)
        await world.fill()
        document = deepcopy(CONFIG)
        document["profiles"][0]["plugins"]["balance"] = {"disabled": [{"name": "*"}]}
        document["profiles"][0]["pluginConfig"] = []
        file = tmp_path / "own.yaml"
        file.write_text(yaml.safe_dump(document))
        worker = worker_process(
            worker_settings(server.url, leaderElect=False, descheduler={"config": str(file)}), "descheduler"
        )
        async with working(worker) as http:
            rounds = worker.part(DeschedulerPart).descheduler.decisions.rounds
            await until(lambda: bool(rounds))

            def note(method: str, path: str) -> None:
                if method != "GET":
                    writes.append(f"{method} {path}")

            server.faults = note
            yield Site(server, world, worker, http, writes)
            server.faults = None
        await client.close()


async def test_a_node_of_which_nothing_can_be_evicted_is_named(site: Site) -> None:
    found = await site.ask(config("MigrationController").replace("- koord-scheduler", "- other"))
    assert found["pods"] == 0
    [report] = found["round"]["runs"][0]["details"]
    assert report["outcome"] == "hot stays overutilized: no more of the pods can be evicted now"


@pytest.mark.parametrize("evictor", ["DefaultEvictor", "MigrationController"])
async def test_a_round_of_another_configuration_evicts_nothing_and_says_what_it_would(
    site: Site, evictor: str
) -> None:
    found = await site.ask(config(evictor))
    assert (found["pods"], found["byNode"], found["byPlugin"]) == (1, {"hot": 1}, {"LowNodeLoad": 1})
    [run] = found["round"]["runs"]
    assert run["evictions"][0]["outcome"] == "dryRun"
    assert run["details"][0]["nodes"]["hot"]["nodeClass"] == "source"
    assert found["round"]["dryRun"] is True
    assert run["details"][0]["outcome"] == "balanced"
    assert await site.ask(config(evictor, highThresholds={"cpu": 95})) != found
    assert await site.world.evicted() == []
    assert site.writes == []


async def test_several_rounds_let_nodes_become_abnormal(site: Site) -> None:
    patient = config(anomalyCondition={"consecutiveAbnormalities": 3})
    once, often = await site.ask(patient), await site.ask(patient, rounds=4)
    assert (once["pods"], often["pods"], often["rounds"]) == (0, 1, 4)
    assert once["round"]["runs"][0]["details"][0]["outcome"] == "no overutilized node is abnormal yet"


async def test_a_profile_that_proves_evictions_names_the_target(site: Site) -> None:
    found = await site.ask(config(profile={"proof": {"enabled": True}}))
    assert [item["target"] for run in found["round"]["runs"] for item in run["evictions"]] == ["idle"]


async def test_a_pod_that_two_profiles_choose_is_counted_once(site: Site) -> None:
    document = yaml.safe_load(config())
    document["profiles"].append({**deepcopy(document["profiles"][0]), "name": "again"})
    found = await site.ask(yaml.safe_dump(document))
    assert sum(len(run["evictions"]) for run in found["round"]["runs"]) == 2
    assert (found["pods"], found["byNode"], found["byPlugin"]) == (1, {"hot": 1}, {"LowNodeLoad": 2})
    [note] = found["notes"]
    first = document["profiles"][0]["name"]
    assert note == (
        f"default/web-0 is chosen by LowNodeLoad of {first} and LowNodeLoad of again; it is counted once"
    )


async def test_the_workers_own_rounds_and_metrics_are_not_affected(site: Site) -> None:
    own = site.worker.part(DeschedulerPart).descheduler
    stores = {store.type.__name__ for store in site.worker.cluster.stores}
    proofs = ("koordpy_descheduler_proofs_total", {"plugin": "LowNodeLoad", "result": "proved"})
    before = REGISTRY.get_sample_value(*proofs)
    assert (await site.ask(config(profile={"proof": {"enabled": True}})))["pods"] == 1
    assert {store.type.__name__ for store in site.worker.cluster.stores} == stores
    assert not any(run.plugin == "LowNodeLoad" for each in own.decisions.rounds for run in each.runs)
    assert REGISTRY.get_sample_value(*proofs) == before


@pytest.mark.parametrize(
    ("text", "query", "status", "message"),
    [
        ("apiVersion: descheduler/v1alpha2\nkind: DeschedulerConfiguration\nodd: 1", {}, 400, "odd: unknown"),
        ("kind: Pod", {}, 400, "DeschedulerConfiguration"),
        (": [", {}, 400, ""),
        (
            config(highThresholds={"cpu": 10}),
            {},
            400,
            "low percentage must be less than or equal to highThresholds",
        ),
        ("#" * (65 << 10), {}, 413, "larger than"),
        (config(), {"rounds": 0}, 400, "rounds"),
        (config(), {"round": 1}, 400, "got parameter 'round', expected rounds"),
    ],
)
async def test_a_wrong_configuration_is_the_callers_error(
    site: Site, text: str, query: dict[str, Any], status: int, message: str
) -> None:
    answer = await site.http.post(PATH, content=text, params=query)
    assert answer.status_code == status, answer.text
    assert message in answer.text


async def test_what_may_not_be_listed_is_named(site: Site) -> None:
    site.server.faults = lambda method, path: Fault(status=403) if "nodemetrics" in path else None
    answer = await site.http.post(PATH, content=config())
    assert answer.status_code == 400, answer.text
    assert "may not list what the configuration needs" in answer.text


async def test_the_command_shows_a_table(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(config())
    found = await site.run("--descheduler-config", str(file))
    assert found.exit_code == 0, found.output
    assert "1 pod of 1 node would be evicted (nothing is changed)" in found.output
    assert "dryRun default/web-0 of hot: node is overutilized" in found.output
    as_json = await site.run("--descheduler-config", str(file), "-o", "json")
    assert json.loads(as_json.output)["byNode"] == {"hot": 1}
    file.write_text("kind: Pod")
    wrong = await site.run("--descheduler-config", str(file))
    assert wrong.exit_code == 1
    assert wrong.output.startswith(f"Error: {file}: ")
    for words in (("--rounds", "2"), ("--descheduler-config", str(file), "--drain", "n")):
        assert (await site.run(*words)).exit_code == 2
