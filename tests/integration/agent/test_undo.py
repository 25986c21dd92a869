"""`koordpy qos` beside a running agent whose plugin wants its value again and again."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
from click.testing import CliRunner

from koordpy.agent.engine.agent import NodeAgent
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.interface import QOSPlugin, Update
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology, NodeSLO
from koordpy.api.scheme import decode
from koordpy.cli import cli
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import SystemClock
from koordpy.lib.endpoint import Request
from koordpy.lib.feature_gates import FeatureGates
from tests.eventually import PATIENCE

DIRECTORY = "kubepods/besteffort"
RESOURCE = "cpu.cfs_quota_us"


class Limiter(QOSPlugin):
    """Wants a quota all the time."""

    name: ClassVar[str] = "Limiter"

    async def run(self):
        while True:
            self.handle.executor.update(
                Update(RESOURCE, DIRECTORY, "20000", "Limit", "20% of 1 core"), cached=False
            )
            await asyncio.sleep(0.01)


@pytest.fixture
def start(node_cgroups, tmp_path):
    """Return a function that constructs an agent on real cgroups where there are some."""

    def agent():
        clock = SystemClock()
        cluster = Cluster(clock)
        installed = Installed.of(Limiter)
        gates = FeatureGates(installed.gate_specs(), {"AuditEvents": True, "AuditEventsHTTPHandler": True})
        found = NodeAgent(
            AgentSettings(
                node_name="n1",
                cgroup_root=str(node_cgroups.root),
                flags={
                    "changes-dir": str(tmp_path / "changes"),
                    "audit-log-dir": str(tmp_path / "audit"),
                    "audit-max-disk-space-mb": 2,
                },
            ),
            installed,
            cluster=cluster,
            gates=gates,
            clock=clock,
        )
        found.setup()
        node = decode(Node, {"metadata": {"name": "n1"}})
        cluster.store(Node).apply(node)
        for type_ in (Node, Pod, NodeSLO, NodeMetric, NodeResourceTopology):
            cluster.store(type_).synced = True
        return found

    return agent


async def eventually(holds):
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


async def qos(tmp_path, *arguments):
    runner = CliRunner()
    command = ["qos", *arguments, "--changes-dir", str(tmp_path / "changes")]
    result = await asyncio.to_thread(runner.invoke, cli, command)
    assert result.exit_code == 0, result.output
    return result.output


@asynccontextmanager
async def running(agent):
    task = asyncio.create_task(agent.run())
    try:
        await eventually(lambda: "Limiter" in agent.running)
        yield agent
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        agent.executor.changes.close()


def stays_away(agent, files):
    """Return whether neither the plugin's loop nor another request changes the quota."""
    (plugin,) = (each for each in agent.plugins if each.name == "Limiter")
    wrote = plugin.handle.executor.update(Update(RESOURCE, DIRECTORY, "20000"), cached=False)
    return not wrote and files.cfs_quota(DIRECTORY) == -1


async def test_a_running_agent_stays_away_from_what_was_undone_until_it_is_enabled(
    start, node_cgroups, tmp_path
):
    files = node_cgroups.files
    async with running(start()) as agent:
        await eventually(lambda: files.cfs_quota(DIRECTORY) == 20000)
        answer = agent.endpoints["/apis/v1/changes"].respond(Request(query={"target": [DIRECTORY]}))
        (change,) = json.loads(answer.body)["changes"]
        assert (change["plugin"], change["formula"]) == ("Limiter", "20% of 1 core")
        await qos(tmp_path, "undo", "--plugin", "Limiter")
        assert stays_away(agent, files)
    async with running(start()) as agent:
        assert stays_away(agent, files)
        await qos(tmp_path, "enable", "--plugin", "Limiter")
        await eventually(lambda: files.cfs_quota(DIRECTORY) == 20000)
        request = Request(headers={"accept": "application/json"}, query={"size": ["3"]})
        events = json.loads(agent.endpoints["/events"].respond(request).body)["Events"]
        path = files.path(RESOURCE, DIRECTORY)
        assert [event["message"] for event in events] == [
            f"update {path} to 20000 by Limiter: 20% of 1 core",
            f"restore {RESOURCE} of {DIRECTORY} to -1",
            f"update {path} to 20000 by Limiter: 20% of 1 core",
        ]
    assert "1 restored" in await qos(tmp_path, "undo", "--all")
    assert files.cfs_quota(DIRECTORY) == -1


async def test_a_pause_until_restart_lets_the_next_agent_work(start, node_cgroups, tmp_path):
    files = node_cgroups.files
    for _ in range(2):
        async with running(start()):
            await eventually(lambda: files.cfs_quota(DIRECTORY) == 20000)
        await qos(tmp_path, "undo", "--all", "--until-restart")
        assert files.cfs_quota(DIRECTORY) == -1
