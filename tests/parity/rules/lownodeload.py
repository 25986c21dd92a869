"""LowNodeLoad on a whole cluster, round by round: `koordpy_plugins.descheduling.lownodeload`."""

import asyncio
from datetime import timedelta
from typing import Any

from pydantic import ConfigDict

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import parse_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.config.configuration import PluginConfig, Plugins, Profile
from koordpy.descheduling.config.plugin_set import PluginSet
from koordpy.descheduling.engine.framework import GROUP, Framework, Runtime
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.descheduling.explain.decisions import Decisions, PluginRun, Round
from koordpy.descheduling.interface import EvictOptions, EvictPlugin, FilterPlugin, Handle, Plugin
from koordpy.lib.clock import FakeClock
from koordpy_plugins.descheduling.lownodeload.explanation import PoolReport
from koordpy_plugins.descheduling.lownodeload.plugin import LowNodeLoad

_RUNNER = asyncio.Runner()


class Script(PluginArgs):
    """What of a case is about evictions."""

    model_config = ConfigDict(extra="ignore")

    not_evictable: list[str]
    evict_fails: list[str]
    max_evictions_per_round: int | None = None


class ScriptedEvictor(EvictPlugin, FilterPlugin):
    """Filters and evicts as the case says, and remembers every call."""

    name = "ScriptedEvictor"
    args: Script

    def __init__(self, args: Script, handle: Handle) -> None:
        super().__init__(args, handle)
        self._not_evictable = set(args.not_evictable)
        self._fails = set(args.evict_fails)
        self._most = args.max_evictions_per_round
        self.calls: list[list[Any]] = []
        self.evicted: set[str] = set()

    def filter(self, pod: Pod) -> bool:
        return pod.metadata.key not in self._not_evictable

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return True

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        key = pod.metadata.key
        successes = sum(success for _, success, _ in self.calls)
        success = key not in self._fails and (self._most is None or successes < self._most)
        self.calls.append([key, success, options.reason])
        if success:
            self.evicted.add(key)
        return success


def run(case: dict[str, Any], tag: str | None) -> object:
    start = parse_time(case["now"])
    clock = FakeClock(start)
    cluster = Cluster(clock)
    nodes = [decode(Node, node) for node in case["nodes"]]
    pods = [decode(Pod, pod) for pod in case["pods"]]
    for metric in case["nodeMetrics"]:
        cluster.store(NodeMetric).apply(decode(NodeMetric, metric))
    decisions = Decisions()
    profile = Profile(
        name="parity",
        plugins=Plugins(
            balance=PluginSet.of(["LowNodeLoad"]),
            evict=PluginSet.of(["ScriptedEvictor"]),
            filter=PluginSet.of(["ScriptedEvictor"]),
        ),
        plugin_config=[
            PluginConfig(name="LowNodeLoad", args=case["args"]),
            PluginConfig(name="ScriptedEvictor", args=case),
        ],
    )
    runtime = Runtime(cluster, None, None, EvictionLimiter(), decisions)
    try:
        framework = Framework(profile, Catalogue.of(GROUP, Plugin, [LowNodeLoad, ScriptedEvictor]), runtime)
    except ConfigError:
        return {"invalid": True}
    evictor = framework.evict_plugin
    assert isinstance(evictor, ScriptedEvictor)
    rounds = []
    for item in case["rounds"]:
        clock.set(start + timedelta(seconds=item["at"]))
        for metric in item.get("nodeMetrics", []):
            cluster.store(NodeMetric).apply(decode(NodeMetric, metric))
        gone = evictor.evicted if item.get("removeEvicted") else set()
        cluster.store(Pod).replace(pod for pod in pods if pod.metadata.key not in gone)
        evictor.calls.clear()
        current = decisions.begin(clock.now(), dry_run=False)
        _RUNNER.run(framework.run_balance_plugins(nodes))
        rounds.append(described(current, evictor.calls))
    return {"rounds": rounds}


def described(current: Round, calls: list[list[Any]]) -> dict[str, Any]:
    run: PluginRun = current.runs[0]
    reports = [report for report in run.details if isinstance(report, PoolReport)]
    answer: dict[str, Any] = {
        "evictions": [list(call) for call in calls],
        "pools": [
            {
                "name": report.name,
                "classes": {name: str(node.node_class) for name, node in report.nodes.items()},
            }
            for report in reports
        ],
    }
    if planned := [item.pod for report in reports for item in report.evictions if item.dry_run]:
        answer["dryRun"] = planned
    return answer
