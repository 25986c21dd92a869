"""The QoS manager of a worker: NodeSLO comes in over HTTP, cgroup files of a made-up node change."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from koordpy.agent.engine.agent import AgentError
from koordpy.agent.interface import FlagError
from koordpy.agent.interface.facts import NODE_USAGE
from koordpy.api.core import Event, Node, Pod
from koordpy.api.koordinator import NodeResourceTopology, NodeSLO
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.compose.part import PartError
from koordpy.compose.parts.node_agent import NodeAgentPart
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.feature_gates import FeatureGateError
from tests.eventually import PATIENCE
from tests.integration.service.stage import until
from tests.integration.worker.stage import (
    BEST_EFFORT,
    CONTAINER,
    POD,
    NodeFiles,
    agent_settings,
    create,
    working,
)
from tests.processes import worker_process

PLUGIN = '''
import asyncio
from pathlib import Path

from koordpy.lib.feature_gates import FeatureSpec, Stage
from koordpy.agent.interface import QOSPlugin


class Stumbler(QOSPlugin):
    """Raises the first two times that it runs, and writes down what happens to it."""

    name = "Stumbler"
    feature = "Stumbling"
    feature_gates = {"Stumbling": FeatureSpec(default=True, stage=Stage.ALPHA)}
    diary = Path(__file__).with_name("diary")

    @classmethod
    def init_flags(cls, flags):
        flags.declare("stumbler-height", 3, "how far to fall")

    def setup(self):
        self.note("setup", self.handle.node_name, self.handle.flags.integer("stumbler-height"))

    async def run(self):
        self.note("run")
        if self.diary.read_text().count("run") <= 2:
            raise RuntimeError("stumbled")
        try:
            await asyncio.Event().wait()
        finally:
            self.note("cancelled")

    async def stop(self):
        self.note("stop")

    def note(self, *words):
        with self.diary.open("a") as diary:
            print(*words, file=diary)
'''


async def fill(client: Client) -> None:
    """Create the node, its topology, a best-effort pod on it, and another node's NodeSLO."""
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    status = {"capacity": capacity, "allocatable": capacity}
    await create(client, resource_of(Node), {"metadata": {"name": "n1"}}, status)
    topology = {"metadata": {"name": "n1"}, "topologyPolicies": ["None"], "zones": []}
    await create(client, resource_of(NodeResourceTopology), topology)
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    await create(client, resource_of(Pod), pod)
    await set_slo(client, enable=True, node="n2")


async def set_slo(
    client: Client, *, enable: bool, policy: str = "cpuset", node: str = "n1", new: bool = True
) -> None:
    section = {"enable": enable, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": policy}
    spec = {"resourceUsedThresholdWithBE": section}
    if new:
        await create(client, resource_of(NodeSLO), {"metadata": {"name": node}, "spec": spec})
    else:
        await client.patch(NodeSLO, "", node, {"spec": spec})


def node_agent(server: ApiServer, files: NodeFiles, **changes: object) -> Process:
    return worker_process(agent_settings(server.url, nodeName="n1", **files.settings, **changes), "agent")


def has_cpus(files: NodeFiles, directory: str, cpus: str) -> bool:
    return files.cpus(directory) == cpus


@pytest.mark.parametrize("version", [1, 2])
async def test_best_effort_pods_are_kept_to_what_node_slo_leaves_them(
    tmp_path: Path, server: ApiServer, client: Client, version: int
) -> None:
    """Nothing else uses CPU: 65 % of 8 cores are 5.2, so 6 CPUs or a quota of 5.2 cores."""
    files = NodeFiles(tmp_path, version)
    unlimited = "-1" if version == 1 else "max"
    await fill(client)
    async with working(node_agent(server, files)) as health:
        await until(lambda: files.version == version and files.cpus() == "0-7")
        await set_slo(client, enable=True)
        for directory in (BEST_EFFORT, POD, CONTAINER):
            await until(partial(has_cpus, files, directory, "0-5"))
        assert files.quota() == unlimited
        assert (await health.get("/readyz")).text == "ok"

        await set_slo(client, enable=True, policy="cfsQuota", new=False)
        await until(lambda: files.quota() == "520000" and files.cpus() == "0-7")
        assert files.cpus(CONTAINER) == "0-7"

        await set_slo(client, enable=False, policy="cfsQuota", new=False)
        await until(lambda: files.quota() == unlimited)

        await set_slo(client, enable=True, new=False)
        await until(lambda: files.cpus() == "0-5")
        await set_slo(client, enable=False, new=False)
        for directory in (BEST_EFFORT, POD, CONTAINER):
            await until(partial(has_cpus, files, directory, "0-7"))


async def test_a_plugin_of_a_third_party_that_raises_is_restarted_and_stopped_at_the_end(
    tmp_path: Path, server: ApiServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    info = site / "stumbler-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "koordpy_stumbler.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stumbler\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[koordpy.qos]\nStumbler = koordpy_stumbler:Stumbler\n")
    monkeypatch.syspath_prepend(site)
    diary = site / "diary"
    files = NodeFiles(tmp_path, 2)
    await fill(client)
    await set_slo(client, enable=True)
    worker = node_agent(server, files, flags={"stumbler-height": 7})
    assert diary.read_text() == "setup n1 7\n"
    async with working(worker) as health:
        await until(lambda: diary.read_text().count("run") == 3)
        await until(lambda: files.cpus() == "0-5")  # the others work on
        assert (await health.get("/livez")).status_code == 200
        assert {"CPUSuppresss", "Stumbler"} <= set(worker.part(NodeAgentPart).agent.running)
    assert diary.read_text().split("\n", 1)[1] == "run\nrun\nrun\ncancelled\nstop\n"


async def test_a_switched_off_gate_leaves_cgroups_alone(
    tmp_path: Path, server: ApiServer, client: Client
) -> None:
    files = NodeFiles(tmp_path, 2)
    await fill(client)
    await set_slo(client, enable=True)
    settings = agent_settings(server.url, nodeName="n1", **files.settings)
    settings = settings.model_copy(update={"feature_gates": {"BECPUSuppress": False}})
    worker = worker_process(settings, "agent")
    async with working(worker):
        agent = worker.part(NodeAgentPart).agent
        await until(lambda: agent.metrics.fact(NODE_USAGE) is not None)
        assert "ResctrlReconcile" in agent.running
        assert "CPUSuppresss" not in agent.running
    assert (files.cpus(), files.quota()) == ("0-7", "max")


async def test_strategies_without_an_interval_do_not_run(
    tmp_path: Path, server: ApiServer, client: Client
) -> None:
    files = NodeFiles(tmp_path, 2)
    await fill(client)
    flags = {"reconcile-interval-seconds": 0, "cpu-suppress-interval-seconds": -1}
    worker = node_agent(server, files, flags=flags)
    async with working(worker) as health:
        agent = worker.part(NodeAgentPart).agent
        await until(lambda: agent.started is not None)
        shown = {each["name"] for each in (await health.get("/debug/plugins")).json()["plugins"]}
    assert "collectors/noderesource" in shown
    assert not {name for name in shown if name.startswith("qos/")}


async def test_events_of_the_agent_name_koordlets_component_and_the_node(
    tmp_path: Path, server: ApiServer, client: Client
) -> None:
    await fill(client)
    worker = node_agent(server, NodeFiles(tmp_path, 2))
    async with working(worker):
        events = worker.part(NodeAgentPart).agent.handle.events
        assert events is not None
        events.event(await client.get(Pod, "default", "p"), "Warning", "evictPodSuccess", "a note")
        async with asyncio.timeout(PATIENCE):
            while not (found := await client.list_all(Event)):
                await asyncio.sleep(0.05)
    assert [(each.reporting_controller, each.reporting_instance) for each in found] == [
        ("koordlet-qosManager", "n1")
    ]


async def test_a_worker_without_optional_resources_on_the_server_is_ready(tmp_path: Path) -> None:
    """Without the CRDs NodeSLO and NodeResourceTopology every strategy idles."""
    async with ApiServer() as bare:
        client = Client(Connection.to(Access(bare.url)))
        await create(client, resource_of(Node), {"metadata": {"name": "n1"}})
        async with working(node_agent(bare, NodeFiles(tmp_path, 1))) as health:
            async with asyncio.timeout(PATIENCE):
                while (await health.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.02)
        await client.close()


async def test_an_agent_of_an_unknown_node_stops_with_an_error(tmp_path: Path, server: ApiServer) -> None:
    worker = node_agent(server, NodeFiles(tmp_path, 1), syncTimeout=0.2)
    with pytest.raises(AgentError, match="node 'n1', its pods and NodeSLOs were not all seen"):
        await worker.run()
    assert not worker.listeners["agent"].is_listening


@pytest.mark.parametrize(
    ("changes", "gates", "error", "message"),
    [
        ({"flags": {"no-such-flag": 1}}, {}, FlagError, "unknown flag 'no-such-flag'"),
        ({"flags": {"cpu-suppress-interval-seconds": "often"}}, {}, FlagError, "got 'often', expected int"),
        ({}, {"NoSuchGate": True}, FeatureGateError, "unrecognized feature gate 'NoSuchGate'"),
        ({"nodeName": None}, {}, PartError, "agent.nodeName or the environment variable NODE_NAME"),
    ],
)
async def test_what_cannot_be_followed_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    gates: dict[str, bool],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    files = NodeFiles(tmp_path, 1)
    settings = agent_settings("http://127.0.0.1:1", **{"nodeName": "n1", **files.settings, **changes})
    settings = settings.model_copy(update={"feature_gates": gates})
    with pytest.raises(error, match=message):
        worker_process(settings, "agent")
