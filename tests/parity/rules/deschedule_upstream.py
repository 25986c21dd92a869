"""One run of a plugin of the Kubernetes descheduler: `koordpy_plugins.descheduling`."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from koordpy.api import config_model
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.field_error import aggregate
from koordpy.api.meta import parse_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.engine.framework import GROUP
from koordpy.descheduling.interface import (
    BalancePlugin,
    DeschedulePlugin,
    EvictOptions,
    Handle,
    NoPlugins,
    Plugin,
)
from koordpy.descheduling.toolkit.pods import NodePods
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates

_CATALOGUE = Catalogue(GROUP, Plugin)
_RUNNER = asyncio.Runner()
_UNORDERED = ("RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint")


class ListedPods(NodePods):
    """The pods of a node in the order of the case."""

    def __init__(self, cluster: Cluster, pods: Sequence[Pod]) -> None:
        super().__init__(cluster)
        self._place = {pod.metadata.key: index for index, pod in enumerate(pods)}

    def all_on(self, node_name: str) -> list[Pod]:
        return sorted(super().all_on(node_name), key=lambda pod: self._place[pod.metadata.key])

    def active_on(self, node_name: str) -> list[Pod]:
        return [pod for pod in self.all_on(node_name) if not pod.is_terminal]


class ScriptedEvictor:
    """Filters and evicts as the case says; evicted pods stay."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._not_evictable = set(case["notEvictable"])
        self._fails = set(case["evictFails"])
        self.calls: list[list[object]] = []

    def filter(self, pod: Pod) -> bool:
        return pod.metadata.key not in self._not_evictable

    def reason_against(self, pod: Pod) -> str | None:
        return None if self.filter(pod) else "the case does not allow it"

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return self.filter(pod)

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        success = pod.metadata.key not in self._fails
        self.calls.append([pod.metadata.key, success])
        return success

    def skipped(self, pods: Sequence[Pod], reason: str | Callable[[], str]) -> None:
        pass


def run(case: dict[str, Any], tag: str | None) -> object:
    type_ = _CATALOGUE.load(case["plugin"])
    try:
        args = config_model.read(type_.args_type, {} if case["args"] is None else case["args"], "args")
    except ConfigError:
        return {"refused": "decode"}
    assert isinstance(args, PluginArgs)
    if problems := list(args.problems()):
        return {"refused": "validate", "error": aggregate(problems)}
    cluster = Cluster(FakeClock(parse_time(case["now"])))
    pods = [decode(Pod, pod) for pod in case["pods"]]
    cluster.store(Pod).replace(pods)
    nodes = [decode(Node, node) for node in case["nodes"]]
    cluster.store(Node).replace(nodes)
    evictor = ScriptedEvictor(case)
    handle = Handle(
        cluster=cluster,
        client=None,
        events=None,
        clock=cluster.clock,
        evictor=evictor,
        dry_run=False,
        report=lambda _: None,
        gates=FeatureGates({}),
        plugins=NoPlugins(),
        run_while_leading=lambda name, task: None,
    )
    vars(handle)["pods"] = ListedPods(cluster, pods)
    try:
        plugin = type_(args, handle)
    except ConfigError as error:
        return {"refused": "construct", "error": str(error)}
    if case["point"] == "deschedule":
        assert isinstance(plugin, DeschedulePlugin)
        status = _RUNNER.run(plugin.deschedule(nodes))
    else:
        assert isinstance(plugin, BalancePlugin)
        status = _RUNNER.run(plugin.balance(nodes))
    calls = sorted(evictor.calls) if case["plugin"] in _UNORDERED else evictor.calls
    return {"evictions": calls} | ({"error": status.error} if status.error else {})


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    """Compare all but the text of decoding errors, which are messages of Go's JSON library."""
    if expected.get("refused") == "decode":
        return ours == {"refused": "decode"}
    return ours == expected
