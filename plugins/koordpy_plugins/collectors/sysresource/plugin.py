"""sysresource: what the node uses beside its pods and host applications.

It is computed from the latest sums of the other collectors, and only if none of them is outdated. By NUMA
node, memory is the rest of the node's, in which host applications are still contained; CPU is the system's,
in the proportions of the nodes. Rules: Koordinator, pkg/koordlet/metricsadvisor/collectors/sysresource.
"""

from datetime import timedelta
from typing import ClassVar

from koordpy.agent.interface import KINDS, Collector, FlagSet, MetricKind
from koordpy.agent.interface.facts import (
    HOST_APPLICATIONS_USAGE,
    NODE_NUMA_USAGE,
    NODE_USAGE,
    PODS_NUMA_USAGE,
    PODS_USAGE,
)

OUTDATED_FLAG = "collect-sys-metric-outdated-interval"


class SystemResource(Collector):
    """The collector of the system."""

    name: ClassVar[str] = "sysresource"
    kinds: ClassVar[tuple[MetricKind, ...]] = (
        KINDS["sys_cpu_usage"],
        KINDS["sys_memory_usage"],
        KINDS["sys_numa_cpu_usage"],
        KINDS["sys_numa_memory_usage"],
    )

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the age from which the input is outdated."""
        flags.declare(
            OUTDATED_FLAG, timedelta(seconds=10), "the age at which usage of node and pods is ignored"
        )

    def collect(self) -> None:
        """Store the rest; nothing if a part is missing or outdated."""
        metrics = self.handle.metrics
        now = self.handle.clock.now().timestamp()
        oldest = now - self.handle.flags.duration(OUTDATED_FLAG).total_seconds()
        node, applications = metrics.fact(NODE_USAGE), metrics.fact(HOST_APPLICATIONS_USAGE)
        pods = (metrics.fact(PODS_USAGE) or {}).values()
        if node is None or applications is None or not pods:
            return
        if any(part.at < oldest for part in (node, applications, *pods)):
            return
        cpu = max(node.cpu - sum(part.cpu for part in pods) - applications.cpu, 0.0)
        memory = max(node.memory - sum(part.memory for part in pods) - applications.memory, 0.0)
        metrics.series("sys_cpu_usage").add(cpu, now)
        metrics.series("sys_memory_usage").add(memory, now)
        self._by_numa_node(cpu, now, oldest)

    def _by_numa_node(self, system_cpu: float, now: float, oldest: float) -> None:
        metrics = self.handle.metrics
        nodes = metrics.fact(NODE_NUMA_USAGE)
        if nodes is None or nodes.at < oldest:
            return
        pods = (metrics.fact(PODS_NUMA_USAGE) or {}).values()
        if pods and all(part.at >= oldest for part in pods):
            for node, used in nodes.memory.items():
                rest = max(used - sum(part.memory.get(node, 0.0) for part in pods), 0.0)
                metrics.series("sys_numa_memory_usage", {"numa_node_id": str(node)}).add(rest, now)
        total = sum(nodes.cpu.values())
        for node, used in nodes.cpu.items():
            share = system_cpu * used / total if total > 0 else 0.0
            metrics.series("sys_numa_cpu_usage", {"numa_node_id": str(node)}).add(share, now)
