"""podresource: CPU and memory that pods and containers use, every second.

Usage is the CPU time between two readings, so the first reading of a group stores nothing. Memory is the most
expensive to read, and is read in turns, every few seconds a part of the groups: that of containers always,
since nothing on the node decides by it; that of pods unless memory eviction, which does, is switched on. CPU
usage is measured every time, except that of containers without a CPU limit or of a class that never bursts,
which no strategy looks at: it is the mean of the seconds between two readings.
Rules: Koordinator, pkg/koordlet/metricsadvisor/collectors/podresource (spec section 5).
"""

import logging
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from koordpy.agent.interface import COLLECT_INTERVAL, KINDS, Collector, Handle, MetricKind, PodMeta
from koordpy.agent.interface.facts import PODS_NUMA_USAGE, PODS_USAGE, NUMAUsage, Usage
from koordpy.agent.interface.gates import BE_MEMORY_EVICT, MEMORY_EVICT
from koordpy.agent.toolkit import usage
from koordpy.agent.toolkit.cpu_time import EXPIRED_INTERVALS
from koordpy.agent.toolkit.pod_filter import every_pod, not_terminated
from koordpy.agent.toolkit.pod_groups import Group, PodGroups
from koordpy.api.plugin import PluginArgs
from koordpy.api.resource_names import CPU

from .measured_group import MeasuredGroup

log = logging.getLogger(__name__)

STAGGER_SECONDS = 5.0
"""The time within which the memory of every container, and of every pod by NUMA node, is read once."""


class PodResourceArgs(PluginArgs):
    """Which pods are measured: `Running` leaves out those whose phase is neither Pending nor Running.

    `containersWithoutBurst` says how often CPU usage of containers is measured whose usage no strategy looks
    at, because they have no CPU limit or are of a class that never bursts: each time, or in turns, once
    within `STAGGER_SECONDS`. `podMemory` says the same for the memory of pods, where
    no gate of memory eviction is on.
    """

    pods: Literal["All", "Running"] = "All"
    containers_without_burst: Literal["InTurns", "EveryTime"] = "InTurns"
    pod_memory: Literal["InTurns", "EveryTime"] = "InTurns"


class PodResource(Collector):
    """The collector of pods and containers."""

    name: ClassVar[str] = "podresource"
    args: PodResourceArgs
    kinds: ClassVar[tuple[MetricKind, ...]] = tuple(
        KINDS[f"{level}_{what}"] for level in ("pod", "container") for what in ("cpu_usage", "memory_usage")
    )
    groups: PodGroups[MeasuredGroup]

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        interval = handle.flags.duration(COLLECT_INTERVAL).total_seconds()
        self._expiry = EXPIRED_INTERVALS * interval
        self._stagger = max(round(STAGGER_SECONDS / interval), 1) if interval > 0 else 1
        self._round = 0
        self._known_groups: list[MeasuredGroup] | None = None

    def setup(self) -> None:
        """Follow the node's pods."""
        pod_filter = every_pod if self.args.pods == "All" else not_terminated
        self.groups = PodGroups(self.handle, self.name, self._make, pod_filter)

    def collect(self) -> None:
        """Measure every pod and container that has cgroups."""
        handle, expiry, stagger, turn = self.handle, self._expiry, self._stagger, self._round
        self._round += 1
        now = handle.clock.now().timestamp()
        milliseconds = int(now * 1000 + 0.001)
        monotonic = handle.clock.monotonic
        all_cpu = all_memory = 0.0
        numa: dict[int, float] = {}
        memory_in_turns = self._reads_memory_in_turns()
        groups = self.groups.current()
        if groups is not self._known_groups:
            self._known_groups = groups
            self._find_turns(groups)
        for index, group in enumerate(groups):
            if group.wait:
                group.wait -= 1
                continue
            its_turn = (index + turn) % stagger == 0
            if group.in_turns and not its_turn:
                continue
            try:
                cpu = group.cpu.usage(monotonic(), expiry)
                if cpu is None:
                    memory = -1
                elif group.is_pod:
                    if memory_in_turns and not its_turn and group.in_use >= 0:
                        memory = -1
                    else:
                        memory = group.in_use = group.memory.in_use()
                        if its_turn or group.numa is None:
                            group.read_numa()
                elif its_turn:
                    memory = group.memory.in_use()
                else:
                    memory = -1
            except (OSError, ValueError) as error:
                group.failed(error)
                continue
            group.failures = 0
            if cpu is None:
                continue
            group.cpu_series.append(cpu, milliseconds)
            if memory >= 0:
                group.memory_series.append(memory, milliseconds)
            if group.is_pod:
                all_cpu += cpu
                all_memory += group.in_use
                if group.numa:
                    for node, size in group.numa.items():
                        numa[node] = numa.get(node, 0.0) + size
        self._share(Usage(all_cpu, all_memory, now), NUMAUsage({}, numa, now))

    def _reads_memory_in_turns(self) -> bool:
        gates = self.handle.gates
        evicts = gates.enabled(BE_MEMORY_EVICT) or gates.enabled(MEMORY_EVICT)
        return self.args.pod_memory == "InTurns" and not evicts

    def _find_turns(self, groups: Iterable[MeasuredGroup]) -> None:
        """Find out which containers are measured in turns."""
        if self.args.containers_without_burst == "EveryTime":
            return
        steady = set(_without_burst(self.handle.states.pods()))
        for group in groups:
            group.in_turns = group.group.container_id in steady

    def _share(self, pods: Usage, numa: NUMAUsage) -> None:
        metrics = self.handle.metrics
        sums = dict(metrics.fact(PODS_USAGE) or ())
        sums[self.name] = pods
        metrics.set_fact(PODS_USAGE, sums)
        numa_sums = dict(metrics.fact(PODS_NUMA_USAGE) or ())
        numa_sums.pop(self.name, None)
        if numa.memory:
            # Without it, memory of the system by NUMA node is not computed rather than overestimated.
            numa_sums[self.name] = numa
        metrics.set_fact(PODS_NUMA_USAGE, numa_sums)

    def _make(self, group: Group) -> MeasuredGroup:
        return MeasuredGroup(group, self.handle)


def _without_burst(pods: Iterable[PodMeta]) -> Iterator[str]:
    """Yield the ids of containers whose quotas follow no usage."""
    for meta in pods:
        may_burst = usage.may_burst(meta.pod)
        limited = {
            container.name for container in meta.pod.spec.containers if CPU in container.resources.limits
        }
        for status in meta.pod.status.container_statuses:
            if status.container_id and not (may_burst and status.name in limited):
                yield status.container_id
