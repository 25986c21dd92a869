"""Run one descheduling plugin on a cluster that a test describes, and see what it evicts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from koordpy.api import config_model
from koordpy.api.core import Node, Pod
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.args import API_VERSION
from koordpy.descheduling.interface import (
    BalancePlugin,
    DeschedulePlugin,
    EvictOptions,
    Handle,
    PluginFactory,
)


@dataclass
class Cycle:
    """What one cycle did."""

    evicted: list[str] = field(default_factory=list)
    """`namespace/name` of pods, in order."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Why, by the same key."""
    reports: list[BaseModel] = field(default_factory=list)
    """What the plugin explained."""


@dataclass
class _Evictor:
    """Lets everything be evicted that `may` allows, and takes the pod out of the cluster."""

    cluster: Cluster
    may: Callable[[Pod], bool]
    cycle: Cycle

    def filter(self, pod: Pod) -> bool:
        return self.may(pod)

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return self.may(pod)

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        key = pod.metadata.key
        self.cycle.evicted.append(key)
        self.cycle.reasons[key] = options.reason
        self.cluster.store(Pod).discard(key)
        return True


async def run_cycle(
    factory: PluginFactory,
    cluster: Cluster,
    args: Mapping[str, Any] | None = None,
    *,
    may_evict: Callable[[Pod], bool] = lambda _: True,
) -> Cycle:
    """Make a plugin and run Deschedule, then Balance, on all nodes by name. Raises what the plugin raises.

    `args` are as in a DeschedulerConfiguration; wrong ones raise ConfigError. Evicted pods leave the cluster.
    """
    cycle = Cycle()
    handle = Handle(
        cluster=cluster,
        client=None,
        events=None,
        clock=cluster.clock,
        evictor=_Evictor(cluster, may_evict, cycle),
        dry_run=False,
        report=cycle.reports.append,
    )
    document = dict(args or {})
    read: Any = document
    if factory.args_type is not None:
        read = config_model.read_args(
            factory.args_type, document, "args", api_version=API_VERSION, kind=f"{factory.name}Args"
        )
    plugin = factory(read, handle)
    nodes = sorted(cluster.store(Node), key=lambda node: node.metadata.name)
    if isinstance(plugin, DeschedulePlugin):
        await plugin.deschedule(nodes)
    if isinstance(plugin, BalancePlugin):
        await plugin.balance(nodes)
    return cycle
