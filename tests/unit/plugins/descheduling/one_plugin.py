"""A profile with one plugin, and an evictor that does as a test says."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from koordpy.api.catalogue import Catalogue
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.config.configuration import PluginConfig, Plugins, Profile
from koordpy.descheduling.config.plugin_set import PluginSet
from koordpy.descheduling.engine.framework import GROUP, Framework, Runtime
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.descheduling.explain.decisions import Decisions
from koordpy.descheduling.interface import (
    EvictingPlugin,
    EvictOptions,
    EvictPlugin,
    FilterPlugin,
    Plugin,
    Status,
)
from koordpy.lib.clock import Clock, SystemClock


def node(name: str, cpu: str = "4", memory: str = "8Gi", **labels: str) -> dict[str, Any]:
    """A node with 110 pod slots."""
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }


def pod(
    name: str, node_name: str, cpu: str = "1", memory: str = "1Gi", *, phase: str = "Running", **labels: str
) -> dict[str, Any]:
    """A pod in the namespace `a`, with its name as UID."""
    return {
        "metadata": {"namespace": "a", "name": name, "uid": name, "labels": labels},
        "spec": {
            "nodeName": node_name,
            "containers": [
                {"name": "c", "image": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            ],
        },
        "status": {"phase": phase},
    }


class Evictor(EvictPlugin, FilterPlugin):
    """Records evictions; `kept` pods do not pass the filter, those in `failing` are not evicted."""

    name = "Evictor"
    kept: Collection[str] = ()
    failing: Collection[str] = ()
    calls: list[tuple[str, str]]

    def filter(self, pod: Pod) -> bool:
        return pod.metadata.name not in self.kept

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return True

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        self.calls.append((pod.metadata.name, options.reason))
        return pod.metadata.name not in self.failing


@dataclass
class OnePlugin:
    """The profile on its cluster."""

    type_: type[EvictingPlugin]
    nodes: Iterable[dict[str, Any]]
    pods: Iterable[dict[str, Any]]
    args: Mapping[str, Any] = field(default_factory=dict)
    kept: Collection[str] = ()
    failing: Collection[str] = ()
    client: Client | None = None
    dry_run: bool = False
    point: Literal["balance", "deschedule"] = "balance"
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self.cluster = Cluster(self.clock)
        for document in self.nodes:
            self.cluster.store(Node).apply(decode(Node, document))
        for document in self.pods:
            self.cluster.store(Pod).apply(decode(Pod, document))
        profile = Profile(
            name="test",
            plugins=Plugins(
                deschedule=PluginSet.of([self.type_.name] if self.point == "deschedule" else []),
                balance=PluginSet.of([self.type_.name] if self.point == "balance" else []),
                evict=PluginSet.of(["Evictor"]),
                filter=PluginSet.of(["Evictor"]),
            ),
            plugin_config=[PluginConfig(name=self.type_.name, args=dict(self.args))],
        )
        self.decisions = Decisions()
        runtime = Runtime(self.cluster, self.client, None, EvictionLimiter(), self.decisions, self.dry_run)
        self._framework = Framework(profile, Catalogue.of(GROUP, Plugin, [self.type_, Evictor]), runtime)
        evictor = self._framework.evict_plugin
        assert isinstance(evictor, Evictor)
        evictor.kept, evictor.failing, evictor.calls = self.kept, self.failing, []
        self.calls = evictor.calls
        framework = self._framework
        self.plugin = (*framework.deschedule_plugins, *framework.balance_plugins)[0]

    async def cycle(self) -> Status:
        """Run one cycle on all nodes by name."""
        nodes = sorted(self.cluster.store(Node), key=lambda node: node.metadata.name)
        if self.point == "deschedule":
            return await self._framework.run_deschedule_plugins(nodes)
        return await self._framework.run_balance_plugins(nodes)

    @property
    def evicted(self) -> list[str]:
        """The names of the pods whose eviction was attempted, in order."""
        return [name for name, _ in self.calls]

    def objection(self, pod_name: str, node_name: str) -> str | None:
        """Return what the plugin objects to a pod on a node with its current pods."""
        pod, target = self.cluster.store(Pod).get("a", pod_name), self.cluster.store(Node).get("", node_name)
        assert pod is not None
        assert target is not None
        others = [other for other in self.plugin.handle.pods.active_on(node_name) if other is not pod]
        return self.plugin.objection(pod, target, others)
