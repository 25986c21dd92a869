"""podresource: CPU and memory that pods and containers use, every second.

Usage is the CPU time between two readings, so the first reading of a group stores nothing. Memory of
containers is read every few seconds, a part of them at a time, since memory.stat is the most expensive file
to read and nothing on the node decides by it; memory of pods, which memory eviction looks at, every time.
Rules: Koordinator, pkg/koordlet/metricsadvisor/collectors/podresource (spec section 5).
"""

import logging
from typing import ClassVar, Literal

from koordpy.agent.interface import COLLECT_INTERVAL, KINDS, Collector, Handle, MetricKind
from koordpy.agent.interface.facts import PODS_NUMA_USAGE, PODS_USAGE, NUMAUsage, Usage
from koordpy.agent.toolkit.cpu_time import EXPIRED_INTERVALS
from koordpy.agent.toolkit.pod_filter import every_pod, not_terminated
from koordpy.agent.toolkit.pod_groups import Group, PodGroups
from koordpy.api.plugin import PluginArgs

from .measured_group import MeasuredGroup

log = logging.getLogger(__name__)

STAGGER_SECONDS = 5.0
"""The time within which the memory of every container, and of every pod by NUMA node, is read once."""


class PodResourceArgs(PluginArgs):
    """Which pods are measured: `Running` leaves out those whose phase is neither Pending nor Running."""

    pods: Literal["All", "Running"] = "All"


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
        for index, group in enumerate(self.groups.current()):
            if group.wait:
                group.wait -= 1
                continue
            its_turn = (index + turn) % stagger == 0
            try:
                cpu = group.cpu.usage(monotonic(), expiry)
                if group.is_pod:
                    memory = group.memory.in_use()
                    if its_turn or group.numa is None:
                        group.read_numa()
                elif its_turn and cpu is not None:
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
                all_memory += memory
                if group.numa:
                    for node, size in group.numa.items():
                        numa[node] = numa.get(node, 0.0) + size
        self._share(Usage(all_cpu, all_memory, now), NUMAUsage({}, numa, now))

    def _share(self, usage: Usage, numa: NUMAUsage) -> None:
        metrics = self.handle.metrics
        sums = dict(metrics.fact(PODS_USAGE) or ())
        sums[self.name] = usage
        metrics.set_fact(PODS_USAGE, sums)
        numa_sums = dict(metrics.fact(PODS_NUMA_USAGE) or ())
        numa_sums.pop(self.name, None)
        if numa.memory:
            # Without it, memory of the system by NUMA node is not computed rather than overestimated.
            numa_sums[self.name] = numa
        metrics.set_fact(PODS_NUMA_USAGE, numa_sums)

    def _make(self, group: Group) -> MeasuredGroup:
        return MeasuredGroup(group, self.handle)
