"""The debug API of workers and node agents: the same as that of `koordpy serve`, under the same rules."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from koordpy import settings
from koordpy.api.core import Node
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.compose.part import PartError
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.server import Fault
from tests.eventually import PATIENCE
from tests.integration.descheduling.test_low_node_load_evicts import World
from tests.integration.service.stage import CRDS
from tests.integration.worker.stage import NodeFiles, create, working
from tests.integration.worker.test_descheduler import CONFIG
from tests.processes import worker_process

TOKEN = "a-token-that-the-api-server-knows"
EVERYTHING = ("/configz", "/metrics", "/debug/flags", "/debug/pprof/", "/openapi.json")
OF_AGENTS = (
    "/configz",
    "/metrics",
    "/internal-metrics",
    "/debug/pprof/",
    "/debug/plugins",
    "/apis/v1/changes",
)
"""The agent's own endpoints, which it serves without FastAPI."""

PARTS = ("descheduler", "controllers", "agent")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(crds=CRDS, tokens={TOKEN: {"username": "operator"}}) as made:
        yield made


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    made = Client(Connection.to(Access(server.url)))
    await World(made).fill()
    await create(made, resource_of(Node), {"metadata": {"name": "n1"}})
    yield made
    await made.close()


def process(server: str, folder: Path, part: str, **debug: Any) -> Process:
    """Return a process with one part, configured to do something."""
    file = folder / "descheduler.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    document = {
        "client": {"server": server},
        "debug": {"port": 0, **debug},
        "featureGates": {"ColocationProfileController": True},
        "worker": {"leaderElect": False, "descheduler": {"config": str(file), "dryRun": True}},
        "agent": {"nodeName": "n1", **NodeFiles(folder, 2).settings},
    }
    return worker_process(settings.load(None, document), part)


@pytest.mark.parametrize("part", PARTS)
async def test_an_address_beyond_loopback_without_authentication_is_refused(
    tmp_path: Path, part: str
) -> None:
    with pytest.raises(PartError, match=r"debug\.bindAddress: 0\.0\.0\.0 is not loopback; set debug\.auth"):
        process("http://127.0.0.1:1", tmp_path, part, bindAddress="0.0.0.0")


@pytest.mark.parametrize("part", PARTS)
async def test_callers_are_reviewed_over_tls_and_probes_are_not(
    server: ApiServer, client: Client, tmp_path: Path, part: str
) -> None:
    reviews: list[str] = []

    def note(method: str, path: str) -> Fault | None:
        if "reviews" in path:
            reviews.append(path.rpartition("/")[2])
        return None

    server.faults = note
    paths = OF_AGENTS if part == "agent" else EVERYTHING
    certs, hosts = tmp_path / "certs", ["localhost", "127.0.0.1", "worker.example"]
    options = {"authentication": True, "certDir": str(certs), "tlsHosts": hosts}
    async with working(process(server.url, tmp_path, part, **options)) as http:
        assert http.base_url.scheme == "https"
        assert (await http.get("/livez")).text == "ok"
        assert reviews == []
        for path in paths:
            assert (await http.get(path)).status_code == 401, path
            assert (await http.get(path, headers=bearing("guessed"))).status_code == 401, path
        assert set(reviews) == {"tokenreviews"}
        for path in paths:
            assert (await http.get(path, headers=bearing(TOKEN))).status_code == 200, path
        assert set(reviews) == {"tokenreviews", "subjectaccessreviews"}
    assert (certs / "tls.crt").exists()


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_the_rounds_of_the_descheduler_are_shown(
    server: ApiServer, client: Client, tmp_path: Path
) -> None:
    async with working(process(server.url, tmp_path, "descheduler")) as http, asyncio.timeout(PATIENCE):
        while not (rounds := await rounds_of(http)) or rounds[-1]["ended"] is None:
            await asyncio.sleep(0.02)
        first = (await http.get("/apis/v1/descheduling/rounds/1")).json()
        assert first["dryRun"] is True
        [eviction] = [found for run in first["runs"] for found in run["evictions"]]
        assert (eviction["plugin"], eviction["outcome"]) == ("LowNodeLoad", "dryRun")
        [newest] = await rounds_of(http, limit=1, pod=eviction["pod"])
        assert newest["number"] >= 1
        assert await rounds_of(http, pod="no/such-pod") == []
        assert (await http.get("/apis/v1/descheduling/rounds/100000")).status_code == 404
        assert (await http.get("/apis/v1/descheduling/rounds?limt=1")).status_code == 400
        configz = (await http.get("/configz")).json()
        assert configz["descheduler"]["maxNoOfPodsToEvictTotal"] == 1


async def test_nodes_and_pods_are_explained(server: ApiServer, client: Client, tmp_path: Path) -> None:
    await World(client).make_pod("fresh")  # without usage
    async with working(process(server.url, tmp_path, "descheduler")) as http, asyncio.timeout(PATIENCE):
        while not (rounds := await rounds_of(http)) or rounds[-1]["ended"] is None:
            await asyncio.sleep(0.02)
        base = "/apis/v1/descheduling"
        hot = (await http.get(f"{base}/nodes/hot", params={"limit": 1})).json()
        assert (hot["exists"], hot["profiles"], len(hot["rounds"])) == (True, ["koord-descheduler"], 1)
        [run] = hot["rounds"][0]["runs"]
        [about] = run["details"]
        assert (about["abnormal"], about["figures"]["nodeClass"]) == (True, "source")
        assert about["figures"]["usage"]["cpu"] == 3600
        assert {item["pod"] for item in run["notEvicted"]} >= {"default/fresh"}
        assert {item["pod"]: item["verdicts"][0]["evictable"] for item in hot["pods"]} == {
            f"default/{name}": True for name in ("fresh", "web-0", "web-1", "web-2", "web-3")
        }
        fresh = (await http.get(f"{base}/pods/default/fresh")).json()
        [reason] = [item["reason"] for item in fresh["rounds"][0]["runs"][0]["notEvicted"]]
        assert reason == "the NodeMetric of hot has no usage of it"
        [tried] = await rounds_of(http, limit=1, node="hot", plugin="LowNodeLoad", details="false")
        assert [run["details"] for run in tried["runs"]] == [[]]
        assert await rounds_of(http, plugin="Other") == []
        for path in ("nodes/hot", "pods/default/fresh", "rounds"):
            text = (await http.get(f"{base}/{path}")).text
            assert not re.search(r'"[a-z0-9]+_[a-z0-9_]+":', text), path  # keys are camelCase
        missing = await http.get(f"{base}/pods/default/nobody")
        assert (missing.status_code, missing.json()["message"]) == (
            404,
            "pod default/nobody does not exist, and no remembered round names it",
        )
        assert (await http.get(f"{base}/nodes/nowhere")).status_code == 404


async def test_rounds_are_streamed_as_they_end(server: ApiServer, client: Client, tmp_path: Path) -> None:
    async with working(process(server.url, tmp_path, "descheduler")) as http, asyncio.timeout(PATIENCE):
        path = "/apis/v1/descheduling/rounds"
        seen: list[int] = []
        async with http.stream("GET", path, params={"watch": "true", "details": "false"}) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line:
                    found = json.loads(line)
                    assert found["ended"]
                    seen.append(found["number"])
                if len(seen) == 3:
                    break
        assert seen == list(range(seen[0], seen[0] + 3))


async def rounds_of(http: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await http.get("/apis/v1/descheduling/rounds", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


async def test_parts_that_a_process_does_not_run_are_reported(
    server: ApiServer, client: Client, tmp_path: Path
) -> None:
    async with working(process(server.url, tmp_path, "controllers")) as http:
        assert await rounds_of(http) == []
        answer = await http.get("/apis/v1/descheduling/rounds/1")
        assert (answer.status_code, answer.json()["message"]) == (
            404,
            "no round 1: this process does not run the descheduler",
        )
        for path in ("nodes/n1", "pods/a/b"):
            answer = await http.get(f"/apis/v1/descheduling/{path}")
            assert answer.status_code == 404
            assert answer.json()["message"].endswith("this process does not run the descheduler")
        answer = await http.get("/apis/v1/nodes/n1")
        assert (answer.status_code, answer.json()["message"]) == (
            404,
            "there is no node table: this process does not have the part extender",
        )


async def test_the_agent_names_its_endpoints(server: ApiServer, client: Client, tmp_path: Path) -> None:
    async with working(process(server.url, tmp_path, "agent")) as http:
        answer = await http.get("/apis/v1/descheduling/rounds")
        assert (answer.status_code, answer.json()["message"]) == (
            404,
            "there is no /apis/v1/descheduling/rounds; / lists what there is",
        )
        listed = (await http.get("/")).text
        assert [path for path in OF_AGENTS if path not in listed] == []
