"""Uninstalling restores the original values of a node; replacing the agent's pod does not."""

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from koordpy.agent.engine.agent import NodeAgent
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.interface import QOSPlugin, Update
from koordpy.api.core import DaemonSet, Node, Pod
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology, NodeSLO
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGates
from tests.eventually import PATIENCE

DIRECTORY = "kubepods/besteffort"
QUOTA, SHARES = "cpu.cfs_quota_us", "cpu.shares"


class Limiter(QOSPlugin):
    """Wants a quota and shares all the time."""

    name: ClassVar[str] = "Limiter"

    async def run(self):
        while True:
            for resource, value in ((QUOTA, "20000"), (SHARES, "512")):
                self.handle.executor.update(Update(resource, DIRECTORY, value, "Limit"), cached=False)
            await asyncio.sleep(0.01)


def daemon_set(*, version="1", selector=None, uid="1", **metadata):
    """Return the agent's DaemonSet."""
    return decode(
        DaemonSet,
        {
            "metadata": {
                "name": "agent",
                "namespace": "system",
                "uid": uid,
                "resourceVersion": version,
                **metadata,
            },
            "spec": {"template": {"spec": {"nodeSelector": selector or {}}}},
        },
    )


@pytest.fixture
def start(node_cgroups, tmp_path):
    """Return a function that constructs an agent on real cgroups where there are some."""

    def agent(where="system/agent"):
        clock = SystemClock()
        cluster = Cluster(clock)
        installed = Installed.of(Limiter)
        settings = AgentSettings(
            node_name="n1",
            cgroup_root=str(node_cgroups.root),
            undo_with_daemon_set=where,
            flags={"changes-dir": str(tmp_path / "changes")},
        )
        gates = FeatureGates(installed.gate_specs())
        found = NodeAgent(settings, installed, cluster=cluster, gates=gates, clock=clock)
        found.setup()
        node = decode(Node, {"metadata": {"name": "n1", "labels": {"pool": "batch"}}})
        cluster.store(Node).apply(node)
        for type_ in (Node, Pod, NodeSLO, NodeMetric, NodeResourceTopology):
            cluster.store(type_).synced = True
        found.handle.cluster.late_store(DaemonSet).apply(daemon_set())
        return found

    return agent


@asynccontextmanager
async def running(agent, files):
    """Run an agent until it has limited best-effort pods, and stop it as SIGTERM does."""
    task = asyncio.create_task(agent.run())
    try:
        async with asyncio.timeout(PATIENCE):
            while not is_limited(files):
                await asyncio.sleep(0.01)
        yield agent.handle.cluster.late_store(DaemonSet)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        agent.executor.changes.close()


def is_limited(files):
    return (files.cfs_quota(DIRECTORY), files.cpu_shares(DIRECTORY)) == (20000, 512)


def is_original(files):
    return (files.cfs_quota(DIRECTORY), files.cpu_shares(DIRECTORY)) == (-1, 1024)


async def stays_away(agent):
    """Return whether the agent no longer changes anything, for the plugin nor for another request."""
    (plugin,) = agent.plugins
    return not plugin.handle.executor.update(Update(QUOTA, DIRECTORY, "20000"), cached=False)


async def test_when_the_daemon_set_is_deleted_originals_are_back_at_once(start, node_cgroups, caplog):
    files, agent = node_cgroups.files, start()
    with caplog.at_level(logging.WARNING):
        async with running(agent, files) as daemon_sets:
            daemon_sets.discard("system/agent")
            assert is_original(files)
            assert await stays_away(agent)
            assert is_original(files)
            assert agent.not_ready()["service/uninstalling"].startswith("DaemonSet system/agent was deleted")
    assert is_original(files)
    assert "system/agent was deleted: original values are restored: 2 restored" in caplog.text


async def test_when_pods_are_deleted_first_the_deletion_timestamp_suffices(start, node_cgroups):
    files = node_cgroups.files
    async with running(start(), files) as daemon_sets:
        daemon_sets.apply(
            daemon_set(
                version="2", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["foregroundDeletion"]
            )
        )
        assert is_original(files)


async def test_a_rolling_update_undoes_nothing(start, node_cgroups):
    files = node_cgroups.files
    for version in ("2", "3"):
        async with running(start(), files) as daemon_sets:
            daemon_sets.apply(daemon_set(version=version, selector={"pool": "batch"}))
        assert is_limited(files)


async def test_pods_that_outlive_their_daemon_set_go_on(start, node_cgroups):
    files, agent = node_cgroups.files, start()
    async with running(agent, files) as daemon_sets:
        daemon_sets.apply(
            daemon_set(version="2", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["orphan"])
        )
        daemon_sets.discard("system/agent")
        assert is_limited(files)
        assert agent.not_ready().get("service/uninstalling") is None
    assert is_limited(files)


@pytest.mark.parametrize("change", ["selector", "label"])
async def test_a_node_that_the_daemon_set_leaves_gets_its_originals_back(start, node_cgroups, change):
    files, agent = node_cgroups.files, start()
    async with running(agent, files) as daemon_sets:
        selector = {"pool": "web" if change == "selector" else "batch"}
        daemon_sets.apply(daemon_set(version="2", selector=selector))
        if change == "label":
            node = decode(Node, {"metadata": {"name": "n1", "labels": {"pool": "web"}}})
            agent.handle.cluster.store(Node).apply(node)
        assert is_limited(files)  # until the pod ends
    assert is_original(files)


async def test_an_agent_that_is_installed_again_works_again(start, node_cgroups):
    files = node_cgroups.files
    async with running(start(), files) as daemon_sets:
        daemon_sets.discard("system/agent")
        assert is_original(files)
    async with running(start(), files):
        assert is_limited(files)


@pytest.mark.parametrize("where", ["agent", "/agent", "system/", "a/b/c"])
def test_a_daemon_set_is_given_as_namespace_and_name(start, where):
    with pytest.raises(ValueError, match="expected NAMESPACE/NAME"):
        start(where)
