"""Runs one descheduling plugin on a cluster described by a test, to test its evictions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.interface import (
    BalancePlugin,
    DeschedulePlugin,
    EvictOptions,
    Handle,
    NoPlugins,
    Plugin,
    Task,
)
from koordpy.lib.feature_gates import FeatureGates


@dataclass
class Cycle:
    """The result of one cycle."""

    evicted: list[str] = field(default_factory=list)
    """`namespace/name` of pods, in order."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The reasons by the same key."""
    reports: list[BaseModel] = field(default_factory=list)
    """The plugin's explanations."""
    tasks: dict[str, Task] = field(default_factory=dict)
    """The loops that the plugin would run while it leads, by name; none is started."""
    errors: list[str] = field(default_factory=list)
    """The errors of the plugin's statuses."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why the plugin itself did not evict candidates, by the same key."""


@dataclass
class _Evictor:
    """Evicts every pod that `may` allows, by removing it from the cluster."""

    cluster: Cluster
    may: Callable[[Pod], bool]
    cycle: Cycle

    def filter(self, pod: Pod) -> bool:
        return self.may(pod)

    def reason_against(self, pod: Pod) -> str | None:
        return None if self.may(pod) else "the test does not allow it"

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return self.may(pod)

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        key = pod.metadata.key
        self.cycle.evicted.append(key)
        self.cycle.reasons[key] = options.reason
        self.cluster.store(Pod).discard(key)
        return True

    def skipped(self, pods: Sequence[Pod], reason: str | Callable[[], str]) -> None:
        text = reason if isinstance(reason, str) else reason()
        self.cycle.skipped.update((pod.metadata.key, text) for pod in pods)


async def run_cycle(
    plugin: type[Plugin],
    cluster: Cluster,
    args: Mapping[str, Any] | None = None,
    *,
    may_evict: Callable[[Pod], bool] = lambda _: True,
    gates: Mapping[str, bool] | None = None,
) -> Cycle:
    """Create a plugin and run Deschedule, then Balance, on all nodes by name. Raises what the plugin raises.

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
        gates=FeatureGates(plugin.feature_gates, gates),
        plugins=NoPlugins(),
        run_while_leading=cycle.tasks.__setitem__,
    )
    made = plugin.make(handle, args)
    nodes = handle.nodes()
    statuses = []
    if isinstance(made, DeschedulePlugin):
        statuses.append(await made.deschedule(nodes))
    if isinstance(made, BalancePlugin):
        statuses.append(await made.balance(nodes))
    cycle.errors += [status.error for status in statuses if status.error]
    return cycle
