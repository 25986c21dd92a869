"""What is kept of one pod or container between measurements: open files, the last reading, its series."""

import logging

from koordpy.agent.interface import Handle
from koordpy.agent.toolkit.cpu_time import CPUTime
from koordpy.agent.toolkit.pod_groups import Group

from .memory_reader import MemoryReader

log = logging.getLogger(__name__)

LONGEST_WAIT = 5
"""The most rounds between two attempts to read a group without a cgroup, such as a terminated container."""


class MeasuredGroup:
    """A pod or container that is measured."""

    __slots__ = (
        "cpu",
        "cpu_series",
        "failures",
        "group",
        "in_turns",
        "in_use",
        "is_pod",
        "memory",
        "memory_series",
        "numa",
        "wait",
    )

    def __init__(self, group: Group, handle: Handle) -> None:
        cgroups, metrics = handle.cgroups, handle.metrics
        self.group = group
        self.is_pod = not group.container_id
        self.cpu = CPUTime(cgroups, group.directory)
        self.cpu_series = metrics.series(f"{group.level}_cpu_usage", group.properties)
        self.memory_series = metrics.series(f"{group.level}_memory_usage", group.properties)
        self.in_turns = False
        """Whether CPU usage is measured only when memory is."""
        self.in_use = -1
        """Bytes of memory, of a pod, when last read; -1 before."""
        self.numa: dict[int, int] | None = None
        """Bytes by NUMA node, when last read."""
        self.failures = 0
        self.wait = 0
        """Rounds left before it is read again after a failure."""
        self.memory = MemoryReader(cgroups, group.directory)

    def read_numa(self) -> None:
        """Read the memory by NUMA node; a kernel without NUMA statistics leaves it unknown."""
        try:
            self.numa = self.memory.by_numa_node()
        except (OSError, ValueError) as error:
            self.numa = {}
            log.debug("memory of pod %s/%s by NUMA node is not measured: %s", *self._names(), error)

    def failed(self, error: Exception) -> None:
        """Skip some rounds, more after each failure in a row, and log the first."""
        self.failures += 1
        self.in_use = -1
        self.wait = min(self.failures - 1, LONGEST_WAIT)
        if self.failures == 1:
            container = f" container {self.group.container_name}" if self.group.container_name else ""
            log.info("pod %s/%s%s is not measured: %s", *self._names(), container, error)

    def close(self) -> None:
        """Close all files and drop the series."""
        self.cpu.close()
        self.memory.close()
        self.cpu_series.close()
        self.memory_series.close()

    def _names(self) -> tuple[str, str]:
        return self.group.namespace, self.group.pod_name
