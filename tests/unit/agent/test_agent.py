import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from koordpy.agent.cgroups.writer import Written
from koordpy.agent.engine.agent import AgentError, NodeAgent
from koordpy.agent.engine.collecting import Collecting
from koordpy.agent.engine.plugins import Installed, flags_of
from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.interface import (
    Answer,
    CallbackError,
    CollectError,
    Collector,
    Endpoint,
    QOSPlugin,
    Request,
    StateType,
)
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology, NodeSLO
from koordpy.api.plugin import PluginArgs
from koordpy.api.plugin_errors import DuplicateName, GateConflict
from koordpy.api.scheme import decode
from koordpy.api.slo.host_application import HostApplicationSpec
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates, FeatureSpec, Stage
from koordpy_plugins.hooks.batchresource.plugin import BatchResource
from tests.eventually import PATIENCE


class GreeterArgs(PluginArgs):
    loud: bool = False


class Greeter(QOSPlugin):
    name = "Greeter"
    feature: ClassVar[str | None] = "Greeting"
    feature_gates = {"Greeting": FeatureSpec(default=True, stage=Stage.ALPHA)}
    args: GreeterArgs

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.calls = []

    @classmethod
    def init_flags(cls, flags):
        flags.declare("greeting", "hello", "what to say")

    def setup(self):
        self.calls.append("setup")

    async def run(self):
        self.calls.append("run")
        if self.calls.count("run") == 1:
            raise RuntimeError("first time")
        await asyncio.Event().wait()

    async def stop(self):
        self.calls.append("stop")


class Node1:
    """A node's agent, with cgroup and proc files in a temporary folder."""

    def __init__(self, root, *types, gates=None, args=None, sync_timeout=120.0):
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.cluster = Cluster(self.clock)
        cgroup, self.proc = root / "cgroup", root / "proc"
        for folder in (cgroup / "kubepods.slice", self.proc):
            folder.mkdir(parents=True)
        (cgroup / "cgroup.controllers").write_text("cpu memory\n")
        self.stat(0)
        (self.proc / "meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
        installed = Installed.of(*types)
        self.agent = NodeAgent(
            AgentSettings(
                node_name="n1",
                cgroup_root=str(cgroup),
                proc_root=str(self.proc),
                sys_root=str(root / "sys"),
                args=args or {},
                sync_timeout=sync_timeout,
            ),
            installed,
            cluster=self.cluster,
            gates=FeatureGates(installed.gate_specs(), gates),
            clock=self.clock,
        )
        self.cgroup = cgroup
        self.states, self.metrics = self.agent.states, self.agent.metrics
        self.plugins = self.agent.plugins

    @property
    def greeter(self) -> Greeter:
        [plugin] = self.plugins
        assert isinstance(plugin, Greeter)
        return plugin

    def stat(self, jiffies):
        (self.proc / "stat").write_text(f"cpu  {jiffies} 0 0 999 0 0 0 0 0 0\ncpu0 0\n")

    def sync(self):
        self.cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n1", "uid": "n"}}))
        for type_ in (Node, Pod, NodeSLO, NodeResourceTopology):
            self.cluster.store(type_).synced = True

    def pod_files(self, directory, usage_usec):
        path = self.cgroup / directory
        path.mkdir(parents=True, exist_ok=True)
        (path / "cpu.stat").write_text(f"usage_usec {usage_usec}\n")
        (path / "memory.stat").write_text("inactive_anon 1\nactive_anon 2\nunevictable 4\nfile 100\n")


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_plugin_that_raises_is_run_again_and_stopped_at_the_end(tmp_path):
    node = Node1(tmp_path, Greeter)
    plugin = node.greeter
    node.sync()
    node.agent.setup()
    running = asyncio.create_task(node.agent.run())
    await until(lambda: plugin.calls.count("run") == 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert plugin.calls == ["setup", "run", "run", "stop"]


async def test_a_disabled_plugin_is_set_up_but_does_not_run(tmp_path):
    node = Node1(tmp_path, Greeter, gates={"Greeting": False})
    plugin = node.greeter
    node.sync()
    node.agent.setup()
    running = asyncio.create_task(node.agent.run())
    await until(lambda: node.states.synced)
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert plugin.calls == ["setup"]


class Thermometer(Collector):
    name = "Thermometer"
    rounds = 0

    def collect(self):
        self.rounds += 1
        if self.rounds == 1:
            raise CollectError("too cold")


async def test_a_collector_measures_again_after_a_failure_and_then_is_ready(tmp_path):
    next_round = asyncio.Event()

    async def sleep(_):
        await next_round.wait()
        next_round.clear()

    node = Node1(tmp_path, Thermometer)
    [collector] = node.plugins
    assert isinstance(collector, Thermometer)
    collecting = Collecting(collector, 1.0, sleep=sleep)
    running = asyncio.create_task(collecting.run())
    await until(lambda: collecting.not_ready() == "too cold")
    next_round.set()
    await until(lambda: collecting.not_ready() is None)
    assert collector.rounds == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_name_belongs_to_one_kind_of_plugin(tmp_path):
    class Namesake(Thermometer):
        name = "Greeter"

    with pytest.raises(DuplicateName, match=r"koordpy\.collectors and another of group koordpy\.qos"):
        Installed.of(Namesake, Greeter)


async def test_nothing_runs_before_the_states_are_synced(tmp_path):
    node = Node1(tmp_path, Greeter, sync_timeout=0.1)
    plugin = node.greeter
    node.agent.setup()
    with pytest.raises(ExceptionGroup) as raised:
        await node.agent.run()
    assert raised.group_contains(AgentError, match="states informer caches to sync")
    assert plugin.calls == ["setup"]


async def test_a_plugin_without_a_gate_always_runs(tmp_path):
    class Always(Greeter):
        name = "Always"
        feature = None
        feature_gates = {}

    node = Node1(tmp_path, Always)
    node.sync()
    node.agent.setup()
    running = asyncio.create_task(node.agent.run())
    await until(lambda: node.agent.running == ["Always"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_name_or_gate_is_registered_once():
    with pytest.raises(DuplicateName, match='"Greeter"'):
        Installed.of(Greeter, Greeter)

    class Other(Greeter):
        name = "Other"

    with pytest.raises(GateConflict, match=r'"Other".*feature gate "Greeting" is declared already'):
        Installed.of(Greeter, Other).gate_specs()


def test_an_unknown_gate_is_refused(tmp_path):
    with pytest.raises(FeatureGateError, match="Nonsense"):
        Node1(tmp_path, Greeter, gates={"Nonsense": True})


def test_plugins_get_their_arguments(tmp_path):
    [plugin] = Node1(tmp_path, Greeter, args={"Greeter": {"loud": True}}).plugins
    assert plugin.args == GreeterArgs(loud=True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"Greeter": {"loud": 3}}, r"^agent\.args\.Greeter\.loud: got 3, expected a valid boolean$"),
        (
            {"Greter": {}},
            r'^agent\.args: got "Greter", .* koordpy\.qos; did you mean Greeter\?$',
        ),
    ],
)
def test_wrong_arguments_are_named(tmp_path, args, message):
    with pytest.raises(ConfigError, match=message):
        Node1(tmp_path, Greeter, args=args)


def test_callback_names_are_unique_within_a_type(tmp_path):
    states = Node1(tmp_path, Greeter).states
    states.register_callbacks(StateType.ALL_PODS, "a", "first", lambda *_: None)
    states.register_callbacks(StateType.NODE_SLO_SPEC, "a", "other type", lambda *_: None)
    with pytest.raises(CallbackError, match="registered already: first"):
        states.register_callbacks(StateType.ALL_PODS, "a", "second", lambda *_: None)


async def test_callbacks_see_the_newest_state_once(tmp_path):
    node = Node1(tmp_path, Greeter)
    seen = []
    node.states.register_callbacks(
        StateType.NODE_SLO_SPEC,
        "t",
        "test",
        lambda type_, spec, target: seen.append(spec.host_applications),
    )
    for name in ("a", "b"):
        slo = {"metadata": {"name": "n1", "uid": "s"}, "spec": {"hostApplications": [{"name": name}]}}
        node.cluster.store(NodeSLO).apply(decode(NodeSLO, slo))
    running = asyncio.create_task(node.states.run())
    await until(lambda: seen)
    await asyncio.sleep(0.02)
    running.cancel()
    assert seen == [[HostApplicationSpec(name="b")]]


class Reloaded(Greeter):
    name = "Reloaded"
    feature: ClassVar[str | None] = "Reloading"
    feature_gates = {"Reloading": FeatureSpec(default=False, stage=Stage.ALPHA)}
    made = 0

    def __init__(self, args, handle):
        super().__init__(args, handle)
        type(self).made += 1

    @classmethod
    def init_flags(cls, flags):
        flags.declare("reload-words", "none", "what to say again")

    def setup(self):
        super().setup()
        self.handle.states.register_callbacks(StateType.ALL_PODS, self.name, "test", lambda *_: None)

    async def run(self):
        self.calls.append("run")
        await asyncio.Event().wait()


async def test_only_plugins_that_a_change_affects_are_exchanged(tmp_path):
    node = Node1(tmp_path, Greeter, Reloaded, gates={"Reloading": True})
    node.sync()
    node.agent.setup()
    running = asyncio.create_task(node.agent.run())
    await until(lambda: node.agent.running == ["Greeter", "Reloaded"])
    greeter, first = node.agent.plugins
    assert isinstance(first, Reloaded)
    await until(lambda: "run" in first.calls)
    flags = flags_of([Greeter, Reloaded], {"reload-words": "again"})
    handle = replace(node.agent.handle, flags=flags)
    assert await node.agent.host.apply({}, handle, node.agent.supervisor) == ["Reloaded"]
    same, second = node.agent.plugins
    assert same is greeter
    assert first.calls == ["setup", "run", "stop"]
    assert isinstance(second, Reloaded)
    assert second.handle.flags.text("reload-words") == "again"
    await until(lambda: second.calls == ["setup", "run"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert second.calls == ["setup", "run", "stop"]


async def test_a_plugin_whose_setup_fails_is_constructed_again_and_does_not_prevent_the_others(tmp_path):
    class Nervous(Reloaded):
        name = "Nervous"
        feature: ClassVar[str | None] = None
        feature_gates = {}
        attempts = 0

        def setup(self):
            super().setup()
            type(self).attempts += 1
            if self.attempts == 1:
                raise RuntimeError("not yet")

    node = Node1(tmp_path, Greeter, Nervous)
    node.sync()
    node.agent.setup()
    running = asyncio.create_task(node.agent.run())
    await until(lambda: Nervous.attempts == 2)
    greeter, nervous = node.agent.plugins
    assert isinstance(greeter, Greeter)
    assert isinstance(nervous, Nervous)
    await until(lambda: "run" in nervous.calls)
    assert "run" in greeter.calls
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_no_callback_runs_before_all_states_are_known(tmp_path):
    """Otherwise quotas that the NodeSLO forbids would be written whenever the agent starts again."""
    node = Node1(tmp_path, BatchResource)
    written: list[Written] = []
    node.agent.executor.writer.observers.append(written.append)
    amounts = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
    container = {"name": "c", "resources": {"requests": amounts, "limits": amounts}}
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "labels": {"koordinator.sh/qosClass": "BE"}},
        "spec": {"nodeName": "n1", "containers": [container]},
    }
    directory = node.cgroup / node.states.layout.pod(decode(Pod, pod))
    directory.mkdir(parents=True)
    for name, text in {"cpu.max": "max 100000", "cpu.weight": "100", "memory.max": "max"}.items():
        (directory / name).write_text(f"{text}\n")
    node.agent.setup()
    running = asyncio.create_task(node.agent.run())
    ratio = {"node.koordinator.sh/cpu-normalization-ratio": "1.2"}
    node.cluster.store(Pod).apply(decode(Pod, pod))
    node.cluster.store(Node).apply(
        decode(Node, {"metadata": {"name": "n1", "uid": "n", "annotations": ratio}})
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert not written
    suppressed = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}}
    node.cluster.store(NodeSLO).apply(decode(NodeSLO, {"metadata": {"name": "n1"}, "spec": suppressed}))
    node.sync()
    await until(lambda: {write.resource for write in written} == {"cpu.shares", "memory.limit_in_bytes"})
    assert (directory / "cpu.max").read_text() == "max 100000\n"
    assert "cpu.cfs_quota_us" not in {write.resource for write in written}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class Reporter(Greeter):
    """Has endpoints, and a key of NodeSLO extensions."""

    name = "Reporter"
    slo_extensions: ClassVar[dict[str, Any]] = {"greeting": {"words": "hello", "times": 1}}

    def endpoints(self):
        slo = self.handle.states.node_slo()
        extensions = {} if slo is None or slo.extensions is None else slo.extensions.object
        return {
            "greeting": Endpoint(lambda _: Answer.json(extensions)),
            "/echo/": Endpoint(lambda request: Answer(request.body), ("PUT",)),
        }


def answer(node: Node1, path: str, **request: Any) -> Answer:
    endpoint = node.agent.endpoints["/apis/v1/plugins/Reporter/"]
    found = endpoint.respond(Request(path=f"/apis/v1/plugins/Reporter/{path}", rest=path, **request))
    assert isinstance(found, Answer)
    return found


def test_a_plugin_reads_the_extensions_of_the_nodeslo_for_which_it_has_defaults(tmp_path):
    node = Node1(tmp_path, Reporter)
    spec = {"extensions": {"Object": {"greeting": {"times": 2}, "unknown": {"a": 1}}}}
    node.cluster.store(NodeSLO).apply(decode(NodeSLO, {"metadata": {"name": "n1"}, "spec": spec}))
    assert json.loads(answer(node, "greeting").body) == {"greeting": {"words": "hello", "times": 2}}


def test_two_plugins_may_not_have_different_defaults_of_an_extension():
    class Other(Reporter):
        name = "Other"
        slo_extensions: ClassVar[dict[str, Any]] = {"greeting": {}}

    with pytest.raises(DuplicateName, match="key 'greeting' of NodeSLO extensions"):
        Installed.of(Reporter, Other).slo_extensions()


def test_a_plugin_serves_endpoints_while_it_is_enabled(tmp_path):
    node = Node1(tmp_path / "on", Reporter)
    assert answer(node, "echo", method="PUT", body=b"hi").body == b"hi"
    assert answer(node, "echo").status == 405
    with pytest.raises(LookupError, match="plugin Reporter has no endpoint 'other'; it has: echo, greeting"):
        answer(node, "other")
    assert answer(Node1(tmp_path / "off", Reporter, gates={"Greeting": False}), "greeting").status == 503
    assert "/apis/v1/plugins/Greeter/" not in Node1(tmp_path / "none", Greeter).agent.endpoints
