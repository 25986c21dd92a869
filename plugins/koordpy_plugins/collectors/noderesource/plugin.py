"""noderesource: CPU and memory that the node uses, as a whole and by NUMA node, every second.

CPU is the time in user, nice, system, irq and softirq mode; the first reading stores nothing. What cannot be
measured by NUMA node does not prevent measuring the whole. Rules: Koordinator,
pkg/koordlet/metricsadvisor/collectors/noderesource.
"""

import logging
from typing import ClassVar

from prometheus_client import Gauge

from koordpy.agent.interface import (
    KINDS,
    NODE_CPU_INFO,
    CollectError,
    Collector,
    Handle,
    MetricKind,
    NodeCPUInfo,
)
from koordpy.agent.interface.facts import NODE_NUMA_USAGE, NODE_USAGE, NUMAUsage, Usage
from koordpy.agent.toolkit import stat_text
from koordpy.agent.toolkit.kept_file import KeptFile
from koordpy.api.plugin import PluginArgs

from . import numa_memory
from .proc_stat import JIFFIES_PER_SECOND, busy_by_cpu, busy_jiffies

log = logging.getLogger(__name__)

USED_CORES = Gauge("koordlet_node_used_cpu_cores", "CPU cores that the node uses.", ["node"])
USED_BYTES = Gauge("koordlet_node_used_memory_bytes", "Memory that the node uses.", ["node"])


class NodeResource(Collector):
    """The collector of the node."""

    name: ClassVar[str] = "noderesource"
    kinds: ClassVar[tuple[MetricKind, ...]] = (
        KINDS["node_cpu_usage"],
        KINDS["node_memory_usage"],
        KINDS["node_numa_cpu_usage"],
        KINDS["node_numa_memory_usage"],
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._stat = KeptFile(handle.proc_root / "stat")
        self._meminfo = KeptFile(handle.proc_root / "meminfo")
        self._numa_meminfo: dict[int, KeptFile] | None = None
        self._cpu_info: NodeCPUInfo | None = None
        self._numa_of_cpu: dict[int, int] = {}
        self._last: tuple[int, dict[int, int], float] | None = None
        """Busy jiffies in total and by CPU, and the time of the reading."""
        self._used_cores = USED_CORES.labels(handle.node_name)
        self._used_bytes = USED_BYTES.labels(handle.node_name)

    def collect(self) -> None:
        """Measure the node. Raises CollectError."""
        clock, metrics = self.handle.clock, self.handle.metrics
        try:
            stat = self._stat.read()
            at, now = clock.monotonic(), clock.now().timestamp()
            busy = busy_jiffies(stat)
        except (OSError, ValueError) as error:
            raise CollectError(f"cannot measure CPU usage with {self._stat.path}: {error}") from None
        try:
            meminfo = self._meminfo.read()
            memory = stat_text.kib(meminfo, b"MemTotal:") - stat_text.kib(meminfo, b"MemAvailable:")
        except (OSError, ValueError) as error:
            raise CollectError(f"cannot measure memory usage with {self._meminfo.path}: {error}") from None
        by_cpu = self._busy_by_cpu(stat)
        last, self._last = self._last, (busy, by_cpu, at)
        if last is None or at <= last[2]:
            return
        jiffies = (at - last[2]) * JIFFIES_PER_SECOND
        cpu = max(busy - last[0], 0) / jiffies
        metrics.series("node_cpu_usage").add(cpu, now)
        metrics.series("node_memory_usage").add(memory, now)
        metrics.set_fact(NODE_USAGE, Usage(cpu, memory, now))
        self._used_cores.set(cpu)
        self._used_bytes.set(memory)
        self._by_numa_node(by_cpu, last[1], jiffies, now)

    def _by_numa_node(self, busy: dict[int, int], before: dict[int, int], jiffies: float, now: float) -> None:
        metrics = self.handle.metrics
        cpu: dict[int, float] = {}
        for processor, node in self._topology().items():
            now_busy, then_busy = busy.get(processor), before.get(processor)
            if now_busy is not None and then_busy is not None and now_busy >= then_busy:
                cpu[node] = cpu.get(node, 0.0) + (now_busy - then_busy) / jiffies
        memory = self._numa_memory()
        for node, used in cpu.items():
            metrics.series("node_numa_cpu_usage", {"numa_node_id": str(node)}).add(used, now)
        for node, size in memory.items():
            metrics.series("node_numa_memory_usage", {"numa_node_id": str(node)}).add(size, now)
        if cpu or memory:
            metrics.set_fact(NODE_NUMA_USAGE, NUMAUsage(cpu, memory, now))

    def _busy_by_cpu(self, stat: bytes) -> dict[int, int]:
        try:
            return busy_by_cpu(stat)
        except ValueError as error:
            log.debug("CPU usage by NUMA node is not measured: %s: %s", self._stat.path, error)
            return {}

    def _topology(self) -> dict[int, int]:
        info = self.handle.metrics.fact(NODE_CPU_INFO)
        if info is not self._cpu_info:
            self._cpu_info = info
            self._numa_of_cpu = {p.cpu: p.node for p in info.processors} if info is not None else {}
        return self._numa_of_cpu

    def _numa_memory(self) -> dict[int, int]:
        try:
            if self._numa_meminfo is None:
                self._numa_meminfo = numa_memory.files(self.handle.sys_root)
            return {node: numa_memory.used(file.read()) for node, file in self._numa_meminfo.items()}
        except (OSError, ValueError) as error:
            self._numa_meminfo = None
            log.debug("memory by NUMA node is not measured: %s", error)
            return {}
