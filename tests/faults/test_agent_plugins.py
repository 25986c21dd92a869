"""Packages of plugins that are broken, hang or leak: each is reported, and the agent and the others go on."""

import asyncio
import itertools
import sys
import threading
import types
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from koordpy.agent.engine import host
from koordpy.agent.engine import plugins as engine_plugins
from koordpy.agent.engine.footprint import Limits, look
from koordpy.agent.engine.label_growth import LabelGrowth
from koordpy.agent.engine.supervisor import Supervisor
from koordpy.agent.engine.unit import FAILURES, Unit
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology, NodeSLO
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.compose.parts.node_agent import NodeAgentPart
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import SystemClock
from tests.integration.service.stage import CRDS, until
from tests.integration.worker.stage import NodeFiles, agent_settings, create, working
from tests.processes import worker_process

HEAD = """
import asyncio, sys, time
from koordpy.agent.interface import Collector, MetricKind, QOSPlugin
from koordpy.agent.interface.hook import Hook
from koordpy.lib.feature_gates import FeatureSpec, Stage

ON = FeatureSpec(default=True, stage=Stage.ALPHA)
"""

QOS = """
class Third(QOSPlugin):
    name = "Third"

    async def run(self):
        await asyncio.Event().wait()
"""

BROKEN = {
    "a package that is not there": ("", "not_there:Third", "No module named 'not_there'"),
    "a syntax error": ("class", "third:Third", "SyntaxError"),
    "a class that is not there": ("", "third:Third", "has no attribute 'Third'"),
    "an error at import": ("raise RuntimeError('no licence')", "third:Third", "RuntimeError: no licence"),
    "an exit at import": ("sys.exit('goodbye')", "third:Third", "SystemExit: goodbye"),
    "an import without end": ("while True: time.sleep(0.01)", "third:Third", "did not return within"),
    "no plugin": ("Third = 3", "third:Third", "expected a subclass of"),
    "an abstract plugin": (
        "class Third(QOSPlugin):\n    name = 'Third'",
        "third:Third",
        "it does not define run",
    ),
    "another name": (QOS.replace('"Third"', '"Fourth"'), "third:Third", '"Fourth"'),
    "a gate of koordpy's": (
        QOS + "    feature_gates = {'BECPUSuppress': ON}",
        "third:Third",
        'feature gate "BECPUSuppress" is declared already',
    ),
    "a gate that does not exist": (QOS + "    feature = 'Nothing'", "third:Third", "Nothing"),
    "a flag of koordpy's": (
        QOS + "    @classmethod\n    def init_flags(cls, flags):\n"
        "        flags.declare('cpu-suppress-interval-seconds', 99, '')",
        "third:Third",
        "cpu-suppress-interval-seconds is declared twice",
    ),
    "flags that raise": (
        QOS + "    @classmethod\n    def init_flags(cls, flags):\n        1 / 0",
        "third:Third",
        "division by zero",
    ),
}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(crds=CRDS) as made:
        client = Client(Connection.to(Access(made.url)))
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
        section = {"enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset"}
        slo = {"metadata": {"name": "n1"}, "spec": {"resourceUsedThresholdWithBE": section}}
        await create(client, resource_of(NodeSLO), slo)
        await client.close()
        yield made


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "STOP_SECONDS", 0.5)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that lays out a package as pip would."""

    def lay_out(code: str, entry: str = "third:Third", name: str = "Third", group: str = "qos") -> None:
        site = tmp_path / "site"
        info = site / "third-1.0.dist-info"
        info.mkdir(parents=True)
        (site / "third.py").write_text(HEAD + code)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[koordpy.{group}]\n{name} = {entry}\n")
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, "third", raising=False)

    return lay_out


@asynccontextmanager
async def agent_of(server: ApiServer, files: NodeFiles, **changes: object) -> AsyncIterator:
    gates = changes.pop("gates", {})
    settings = agent_settings(server.url, nodeName="n1", **files.settings, **changes)
    process = worker_process(settings.model_copy(update={"feature_gates": gates}), "agent")
    async with working(process) as client:
        yield process.part(NodeAgentPart).agent, client


async def shown(client, name: str) -> dict[str, object]:
    """Return what /debug/plugins says of one plugin."""
    everything = (await client.get("/debug/plugins")).json()["plugins"]
    [found] = [each for each in everything if each["name"] == name] or [{}]
    return found


def failures(name: str, reason: str) -> float:
    return float(FAILURES.labels(name, reason)._value.get())


@pytest.mark.parametrize("what", BROKEN)
async def test_a_package_that_cannot_be_used_is_reported_and_the_agent_goes_on(
    tmp_path: Path, server: ApiServer, install, monkeypatch: pytest.MonkeyPatch, caplog, what: str
) -> None:
    code, entry, message = BROKEN[what]
    install(code, entry)
    if what == "an import without end":
        monkeypatch.setattr(engine_plugins, "IMPORT_SECONDS", 0.5)
    before = failures("qos/Third", "import")
    files = NodeFiles(tmp_path, 2)
    changes = {"flags": {"third-flag": 3, "qos-extension-plugins": "Thirding=true"}}
    async with agent_of(server, files, gates={"Thirding": True}, **changes) as (agent, client):
        await until(lambda: files.cpus() == "0-5")  # the others work
        assert "Third" not in agent.running
        assert message in str((await shown(client, "qos/Third"))["notReady"])
        ready = await client.get("/readyz?verbose")
        assert (ready.status_code, message in ready.text) == (503, True)
        assert (await client.get("/livez")).status_code == 200
        assert (
            'koordpy_agent_plugin_failures_total{plugin="qos/Third",reason="import"}'
            in (await client.get("/metrics")).text
        )
    assert failures("qos/Third", "import") == before + 1
    assert message in caplog.text


async def test_a_plugin_with_the_name_of_one_of_koordpys_is_left_out(
    tmp_path: Path, server: ApiServer, install
) -> None:
    install(QOS.replace('"Third"', '"CPUSuppresss"'), name="CPUSuppresss")
    files = NodeFiles(tmp_path, 2)
    async with agent_of(server, files) as (_, client):
        await until(lambda: files.cpus() == "0-5")
        found = await shown(client, "qos/CPUSuppresss of third:Third")
        assert "another of group koordpy.qos (third:Third)" in str(found["notReady"])
        assert (await shown(client, "qos/CPUSuppresss"))["notReady"] is None


FAILING = {
    "constructor": (
        QOS + "    def __init__(self, args, handle):\n        raise RuntimeError('not made')",
        "not made",
    ),
    "constructor without end": (
        QOS + "    def __init__(self, args, handle):\n        while True: time.sleep(0.01)",
        "did not return within",
    ),
    "setup": (QOS + "    def setup(self):\n        raise RuntimeError('not set up')", "not set up"),
    "setup without end": (
        QOS + "    def setup(self):\n        while True: time.sleep(0.01)",
        "did not return within",
    ),
    "setup that catches everything": (
        QOS + "    def setup(self):\n        while True:\n            try: time.sleep(60)\n"
        "            except Exception as error:\n                if self.caught: raise\n"
        "                self.caught = True\n    caught = False",
        "did not return within",
    ),
    "is_enabled": (QOS + "    def is_enabled(self):\n        raise RuntimeError('who knows')", "who knows"),
    "run": (QOS.replace("await asyncio.Event().wait()", "raise RuntimeError('at once')"), "at once"),
}


@pytest.mark.parametrize("what", FAILING)
async def test_a_plugin_that_fails_does_not_prevent_the_others(
    tmp_path: Path, server: ApiServer, install, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    code, message = FAILING[what]
    install(code)
    if "end" in what or "catches" in what:
        monkeypatch.setattr(host, "SETUP_SECONDS", 0.5)
    files = NodeFiles(tmp_path, 2)
    async with agent_of(server, files) as (agent, client):
        await until(lambda: files.cpus() == "0-5")
        await until(lambda: message in str(agent.not_ready().get("qos/Third")))
        assert message in (await client.get("/readyz?verbose")).text


HOOK = """
class Third(Hook):
    name = "Third"
"""
HOOKS = {
    "rules": HOOK + "    def rules(self):\n        raise RuntimeError('no rules')",
    "reconcilers": HOOK + "    def reconcilers(self):\n        raise RuntimeError('no rules')",
    "refusal": HOOK + "    def refusal(self):\n        raise RuntimeError('no rules')",
    "constructor": HOOK + "    def __init__(self, args, handle):\n        raise RuntimeError('no rules')",
}


@pytest.mark.parametrize("what", HOOKS)
async def test_a_runtime_hook_that_fails_does_not_prevent_the_others(
    tmp_path: Path, server: ApiServer, install, what: str
) -> None:
    install(HOOKS[what], group="hooks")
    files = NodeFiles(tmp_path, 2)
    async with agent_of(server, files) as (agent, client):
        await until(lambda: files.cpus() == "0-5")
        assert "no rules" in str((await shown(client, "hooks/Third"))["notReady"])
        assert "Third" not in agent.running
        assert agent.hooks.hooks


async def test_a_plugin_that_does_not_stop_is_left_behind(tmp_path: Path, server: ApiServer, install) -> None:
    install(QOS + "    async def stop(self):\n        await asyncio.Event().wait()")
    before = failures("qos/Third", "hung")
    files = NodeFiles(tmp_path, 2)
    async with agent_of(server, files) as (agent, _):
        await until(lambda: "Third" in agent.running)
    assert failures("qos/Third", "hung") == before + 1


async def test_the_unit_that_leaves_threads_behind_is_replaced() -> None:
    ends: list[threading.Event] = []
    replaced = asyncio.Event()

    async def soon(_: float) -> None:
        await asyncio.sleep(0)

    async def leak() -> None:
        while True:
            end = threading.Event()
            ends.append(end)
            threading.Thread(target=end.wait, daemon=True).start()
            await leaking.sleep(0)
            if len(ends) > 100:
                await asyncio.Event().wait()

    leaking = Unit("qos/Spinner", leak, clock=SystemClock(), sleep=soon, replace=replaced.set)
    quiet = Unit("qos/Quiet", lambda: asyncio.Event().wait(), clock=SystemClock(), sleep=soon)  # type: ignore[arg-type,return-value]
    supervisor = Supervisor(sleep=soon, limits=Limits(files=1 << 30, threads=0))
    tasks = [asyncio.create_task(supervisor.run())]
    await asyncio.sleep(0)
    tasks += [asyncio.create_task(supervisor.keep(each)) for each in (leaking, quiet)]
    try:
        await until(lambda: leaking.left.threads > 0 or replaced.is_set())
        supervisor.check_footprint(look(supervisor.limits))
        await until(replaced.is_set)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            end.set()
    assert failures("qos/Spinner", "leaked") >= 1
    assert quiet.failures == 0


async def test_a_metric_with_ever_new_labels_is_cleared_and_its_plugin_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = CollectorRegistry()
    package = types.ModuleType("hoarding")
    package.SEEN = Gauge("hoarding_seen", "Pods.", ["uid"], registry=registry)  # type: ignore[attr-defined]
    bounded = Gauge("bounded_seen", "Pods.", ["uid"], registry=registry)
    bounded.labels("kept").set(1)
    monkeypatch.setitem(sys.modules, "hoarding", package)
    replaced = asyncio.Event()
    rounds = itertools.count()

    async def soon(_: float) -> None:
        await asyncio.sleep(0)

    async def hoard() -> None:
        while True:
            package.SEEN.labels(str(next(rounds))).set(1)
            await hoarding.sleep(0)

    hoarding = Unit(
        "qos/Hoarder", hoard, clock=SystemClock(), sleep=soon, replace=replaced.set, package="hoarding"
    )
    supervisor = Supervisor(sleep=soon, labels=LabelGrowth(registry, most=50))
    tasks = [asyncio.create_task(supervisor.run())]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(supervisor.keep(hoarding)))
    try:
        await until(replaced.is_set)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert failures("qos/Hoarder", "leaked") >= 1
    assert "kept" in generate_latest(registry).decode()


FLOOD = """
class Third(Collector):
    name = "Third"
    kinds = (MetricKind("third_by_uid", ("uid",), "pods"),)
    number = 0

    def collect(self):
        now = self.handle.clock.now().timestamp()
        for _ in range(2000):
            type(self).number += 1
            self.handle.metrics.series("third_by_uid", {"uid": f"{self.number:0100}"}).add(1.0, now)
"""


async def test_a_plugin_with_ever_new_series_loses_its_own_points_and_no_others(
    tmp_path: Path, server: ApiServer, install
) -> None:
    install(FLOOD, group="collectors")
    (tmp_path / "metrics").mkdir()
    flags = {"tsdb-max-bytes": 1 << 20, "tsdb-path": str(tmp_path / "metrics")}
    files = NodeFiles(tmp_path, 2)
    async with agent_of(server, files, flags=flags) as (agent, client):
        cache = agent.metrics
        await until(lambda: "Third" in cache.shares and cache.shares["Third"].evicted > 5000)
        text = (await client.get("/metrics")).text
        assert 'koordpy_agent_plugin_series_evictions_total{plugin="Third"}' in text
        assert 'koordpy_agent_plugin_series_bytes{plugin="Third"}' in text
        assert cache.bytes_used <= 1 << 20
        assert {name for name, share in cache.shares.items() if share.evicted} == {"Third"}
        assert cache.shares["noderesource"].series
        assert (tmp_path / "metrics/series").stat().st_size < 1 << 20  # the names of series that are gone
