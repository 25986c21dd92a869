"""nodeinfo: the processors of the node, and the memory of its NUMA nodes, as facts, every minute.

Source: Koordinator, pkg/koordlet/metricsadvisor/collectors/nodeinfo. The numbers of cores and caches are
those of lscpu, which counts them instead of taking the hardware's ids.
"""

from datetime import timedelta
from typing import ClassVar

from prometheus_client import Gauge

from koordpy.agent.interface import NODE_CPU_INFO, CollectError, Collector, FlagSet, Handle, NodeCPUInfo
from koordpy.agent.interface.facts import NODE_NUMA_INFO
from koordpy.agent.interface.gates import HUGE_PAGE_REPORT
from koordpy.api.plugin import PluginArgs

from . import cpu_basic_info, cpu_topology, numa_info

INTERVAL_FLAG = "collect-node-cpu-info-interval"

# Gauges, because the name of a counter would end in `_total`.
CPU_STATUS = Gauge(
    "koordlet_collect_node_cpu_info_status", "Attempts to read the node's processors.", ["node", "status"]
)
NUMA_STATUS = Gauge(
    "koordlet_collect_node_numa_info_status", "Attempts to read the node's NUMA nodes.", ["node", "status"]
)


class NodeInfo(Collector):
    """The collector of the node's hardware."""

    name: ClassVar[str] = "nodeinfo"
    interval_flag: ClassVar[str] = INTERVAL_FLAG

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._topology = cpu_topology.CPUTopologyReader(handle.sys_root)

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval."""
        flags.declare(
            INTERVAL_FLAG, timedelta(seconds=60), "time between two readings of the node's hardware"
        )

    def collect(self) -> None:
        """Read the processors, then the NUMA nodes. Raises CollectError."""
        handle = self.handle
        try:
            processors = self._topology.read()
            basic = cpu_basic_info.read(handle.proc_root, handle.sys_root, handle.resctrl_root)
        except (OSError, ValueError) as error:
            CPU_STATUS.labels(handle.node_name, "failed").inc()
            raise CollectError(f"cannot read the CPU topology below {handle.sys_root}: {error}") from None
        CPU_STATUS.labels(handle.node_name, "succeeded").inc()
        info = NodeCPUInfo(processors, basic)
        if info != handle.metrics.fact(NODE_CPU_INFO):
            handle.metrics.set_fact(NODE_CPU_INFO, info)
        try:
            numa = numa_info.read(handle.sys_root, huge_pages=handle.gates.enabled(HUGE_PAGE_REPORT))
        except (OSError, ValueError) as error:
            NUMA_STATUS.labels(handle.node_name, "failed").inc()
            raise CollectError(f"cannot read the NUMA nodes below {handle.sys_root}: {error}") from None
        NUMA_STATUS.labels(handle.node_name, "succeeded").inc()
        handle.metrics.set_fact(NODE_NUMA_INFO, numa)
