"""A package of a third party with a collector that has a series of its own and a QoS plugin that reads it."""

from pathlib import Path

import pytest

from koordpy.agent.interface import FlagError
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.compose.parts.node_agent import NodeAgentPart
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from tests.integration.service.stage import until
from tests.integration.worker.stage import NodeFiles, agent_settings, create, working
from tests.processes import worker_process

PACKAGE = '''
from koordpy.agent.interface import (
    Aggregation,
    Collector,
    MetricError,
    MetricKind,
    QOSPlugin,
    Update,
)
from koordpy.lib.feature_gates import FeatureSpec, Stage

PODS = MetricKind("third_party_pods", ("phase",), "pods")
OFF = FeatureSpec(default=False, stage=Stage.ALPHA)


class PodCounter(Collector):
    """Counts the pods of the node by phase."""

    name = "PodCounter"
    kinds = (PODS,)
    feature = "PodCounting"
    feature_gates = {"PodCounting": OFF}

    def collect(self):
        now = self.handle.clock.now().timestamp()
        for phase in ("Pending", "Running"):
            pods = [meta for meta in self.handle.states.pods() if meta.pod.status.phase == phase]
            self.handle.metrics.series(PODS.name, {"phase": phase}).add(len(pods), now)


class PodGuard(QOSPlugin):
    """Gives best-effort pods as many CPUs as pods are pending."""

    name = "PodGuard"
    feature = "PodGuarding"
    feature_gates = {"PodGuarding": OFF}

    async def run(self):
        while True:
            self.enforce()
            await self.handle.sleep(0.05)

    def enforce(self):
        metrics, now = self.handle.metrics, self.handle.clock.now()
        then = now.replace(year=now.year - 1)
        try:
            pods = metrics.query(PODS.name, Aggregation.LAST, then, now, {"phase": "Pending"})
        except MetricError:
            return
        directory = self.handle.layout.qos("BestEffort")
        update = Update("cpu.cfs_quota_us", directory, str(int(pods) * 100000), formula=f"{pods:g} pods")
        self.handle.executor.update(update)
'''
ENTRY_POINTS = """
[koordpy.collectors]
PodCounter = third_party_pods:PodCounter
[koordpy.qos]
PodGuard = third_party_pods:PodGuard
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay out the package as pip would."""
    site = tmp_path / "site"
    info = site / "third_party_pods-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "third_party_pods.py").write_text(PACKAGE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-pods\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(site)


def node_agent(server: ApiServer, files: NodeFiles, plugins: str) -> Process:
    flags = {"qos-extension-plugins": plugins}
    return worker_process(agent_settings(server.url, nodeName="n1", flags=flags, **files.settings), "agent")


async def fill(client: Client) -> None:
    """Create a node with two pods that are pending."""
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    status = {"capacity": capacity, "allocatable": capacity}
    await create(client, resource_of(Node), {"metadata": {"name": "n1"}}, status)
    for name in ("p", "q"):
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        await create(
            client, resource_of(Pod), {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        )


async def test_a_qos_plugin_acts_on_the_series_of_a_collector(
    tmp_path: Path, server: ApiServer, client: Client
) -> None:
    files = NodeFiles(tmp_path, 2)
    await fill(client)
    async with working(node_agent(server, files, "PodCounting=true,PodGuarding=true")):
        await until(lambda: files.quota() == "200000")


async def test_plugins_whose_gates_are_off_do_not_run(
    tmp_path: Path, server: ApiServer, client: Client
) -> None:
    files = NodeFiles(tmp_path, 2)
    await fill(client)
    agent = node_agent(server, files, "PodCounting=true,PodGuarding=false")
    async with working(agent):
        node = agent.part(NodeAgentPart).agent
        await until(lambda: {"PodCounter", "ResctrlReconcile"} <= set(node.running))
        assert "PodGuard" not in node.running
    assert files.quota() == "max"


async def test_an_unknown_plugin_is_an_error_at_the_start(tmp_path: Path, server: ApiServer) -> None:
    with pytest.raises(FlagError, match=r"qos-extension-plugins: .*'PodGuardin'; did you mean PodGuarding\?"):
        node_agent(server, NodeFiles(tmp_path, 2), "PodGuardin=true")


async def test_a_gate_of_koordlet_is_no_extension(tmp_path: Path, server: ApiServer) -> None:
    with pytest.raises(FlagError, match="'BECPUSuppress'"):
        node_agent(server, NodeFiles(tmp_path, 2), "BECPUSuppress=false")
