"""The doctor examines third-party plugins like koordpy's own: what they follow, write, lack and wait for."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
import yaml

from koordpy import settings
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.needs import Lack, Needs, Right
from koordpy.api.plugin import PluginArgs
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.doctor import clocks
from koordpy.doctor.definitions import DEFINITIONS
from koordpy.doctor.finding import Finding, State
from koordpy.doctor.installation import Installation
from koordpy.lib.clock import SystemClock
from koordpy.scheduling.interface import Filter, Permit, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import registry
from tests.integration.doctor.clinic import Clinic, clinic


class Zoned(Plugin, Filter, Permit):
    """Wants every node to have a zone, follows NodeSLOs, writes pods, lets pods wait for two minutes."""

    name = "Zoned"
    needs = Needs(rights=(Right("patch", "pods"),), longest_wait=120)

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.on(NodeSLO)

    def lacks(self) -> Iterable[Lack]:
        for node in self.handle.cluster.store(Node):
            if "zone" not in node.metadata.labels:
                yield Lack(f"node {node.metadata.name} has no zone", "label it")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status.wait(120)


class SaysNothing(Zoned):
    name = "SaysNothing"
    needs = Needs()

    def lacks(self) -> Iterable[Lack]:
        return ()


def profiles(folder: Path, plugin: str) -> str:
    chain = {"multiPoint": {"enabled": [{"name": plugin}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": name, "plugins": chain} for name in ("default-scheduler", "koord-scheduler")
        ],
    }
    file = folder / "profiles.yaml"
    file.write_text(yaml.safe_dump(document))
    return str(file)


@pytest.fixture
async def it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Clinic]:
    known = registry.installed().including(Zoned, SaysNothing)
    monkeypatch.setattr(registry, "installed", lambda: known)
    async with clinic(tmp_path) as made:
        made.settings["extender"] = {"schedulerConfig": profiles(tmp_path, "Zoned")}
        for name in ("n0", "n1"):
            await made.client.patch(Node, "", name, {"metadata": {"labels": {"zone": "a"}}})
        yield made


async def test_one_that_has_what_it_needs_is_well(it: Clinic) -> None:
    assert await it.problems() == []


async def test_a_plugin_reports_what_it_lacks(it: Clinic) -> None:
    await it.client.patch(Node, "", "n1", {"metadata": {"labels": {"zone": None}}})
    found = await it.problem()
    assert (found.subject, found.message, found.fix) == ("Zoned", "node n1 has no zone", "label it")


async def test_what_it_follows_must_be_defined(it: Clinic) -> None:
    await it.client.delete_raw(DEFINITIONS, "", "nodeslos.slo.koordinator.sh")
    [found] = [finding for finding in await it.problems() if finding.area == "definitions"]
    assert "needed by Zoned" in found.message
    report = await it.examine()
    [unknown] = [finding for finding in report.findings if finding.state is State.UNKNOWN]
    assert "does not serve NodeSLO" in unknown.message


async def test_what_it_writes_must_be_allowed(it: Clinic) -> None:
    it.denied |= {"patch pods", "watch nodeslos"}
    problems = await it.problems()
    assert [finding.subject for finding in problems] == ["patch pods", "watch nodeslos.slo.koordinator.sh"]
    assert all("needed by Zoned" in finding.message for finding in problems)


async def test_kube_scheduler_must_wait_for_a_bind_as_long_as_permit_may_hold_it(it: Clinic) -> None:
    it.scheduler["extenders"][1]["httpTimeout"] = "60s"
    found = await it.problem()
    assert "Zoned (120 s)" in found.message
    assert found.fix == "httpTimeout: 120s in an entry with bindVerb alone"


async def test_a_plugin_that_does_not_say_how_long_may_hold_it_for_the_longest_time(
    it: Clinic, tmp_path: Path
) -> None:
    it.settings["extender"] = {"schedulerConfig": profiles(tmp_path, "SaysNothing")}
    assert await it.problems() == []  # the shipped configuration waits for as long
    it.scheduler["extenders"][1]["httpTimeout"] = "600s"
    assert "SaysNothing (900 s)" in (await it.problem()).message
    it.scheduler["extenders"][1]["httpTimeout"] = "900s"
    assert await it.problems() == []


# --- clocks ----------------------------------------------------------------------------------------


@asynccontextmanager
async def server_that_tells(date: str) -> AsyncIterator[str]:
    """Run an HTTP server whose answers have a Date."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{date}Connection: close\r\n\r\n"
        writer.write(head.encode() + b"{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def skew(date: str) -> Finding:
    async with server_that_tells(date) as url:
        client = Client(Connection.to(Access(url)))
        installation = Installation(client, settings.load(None), (), SystemClock())
        [found] = [finding async for finding in clocks.check(installation)]
        await client.close()
    return found


@pytest.mark.parametrize(("seconds", "word"), [(-3600, "ahead of"), (3600, "behind")])
async def test_clocks_that_do_not_agree_are_a_problem(seconds: int, word: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
    found = await skew(f"Date: {date}\r\n")
    assert found.state is State.PROBLEM
    assert word in found.message
    assert found.fix


async def test_clocks_that_agree_or_are_unknown_yield_no_finding() -> None:
    assert (await skew(f"Date: {format_datetime(datetime.now(UTC), usegmt=True)}\r\n")).state is State.OK
    assert (await skew("")).state is State.NOTE
