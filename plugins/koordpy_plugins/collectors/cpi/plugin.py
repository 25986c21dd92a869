"""cpi: cycles and instructions of containers, in a window of ten seconds every minute (gate CPICollector).

The kernel counts them by cgroup (perf events), user and kernel mode together. With the gate Libpfm4 both are
counted as one group, as koordlet does with that library. Source: Koordinator,
`pkg/koordlet/metricsadvisor/collectors/performance`.
"""

import asyncio
import os
import resource
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final

from koordpy.agent.interface import KINDS, Collector, FlagSet, Handle, MetricKind
from koordpy.agent.interface.gates import CPI_COLLECTOR, LIBPFM4
from koordpy.agent.toolkit.pod_groups import Group, PodGroups
from koordpy.agent.toolkit.scraped_gauge import ScrapedGauge
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs
from koordpy.lib import cpuset

if TYPE_CHECKING:
    from .counted_group import CountedGroup, Counting

INTERVAL_FLAG: Final = "cpi-collector-interval"
WINDOW_FLAG: Final = "collect-cpi-timewindow"

_LABELS = ("node", "container_id", "container_name", "pod_uid", "pod_name", "pod_namespace", "cpi_field")
CONTAINER_CPI = ScrapedGauge(
    "koordlet_container_cpi", "Cycles and instructions of containers in the last window.", _LABELS
)


class CPI(Collector):
    """The collector of cycles and instructions."""

    name: ClassVar[str] = "cpi"
    feature: ClassVar[str | None] = CPI_COLLECTOR
    interval_flag: ClassVar[str] = INTERVAL_FLAG
    kinds: ClassVar[tuple[MetricKind, ...]] = (KINDS["container_cpi"],)
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "processors with performance counters, which most virtual machines lack; a seccomp profile that "
            "allows perf_event_open; CAP_SYS_ADMIN instead of CAP_PERFMON before Linux 5.8",
        ),
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.PERFMON,
                purpose="counting cycles and instructions",
                without="nothing is counted, and the log says why",
            ),
        ),
    )
    groups: "PodGroups[CountedGroup]"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cpus: Sequence[int] = ()

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval and the window."""
        flags.declare(INTERVAL_FLAG, timedelta(seconds=60), "time between two windows of counting cycles")
        flags.declare(WINDOW_FLAG, timedelta(seconds=10), "how long cycles and instructions are counted")

    def setup(self) -> None:
        """Follow the node's pods, and publish the gauge."""
        self.groups = PodGroups(self.handle, self.name, self._group)
        CONTAINER_CPI.publish(self, CPI.values)

    def idle_reason(self) -> str | None:
        """Say why this node does not count; found out by counting the cgroup of all pods."""
        from . import perf_events

        if not perf_events.SUPPORTED:
            return "performance events are not known on this processor architecture"
        folder = self.handle.cgroups.path("perf_event.procs", self.handle.layout.kubepods).parent
        try:
            self._cpus = sorted(self._online())
            cgroup = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            return f"the node has no cgroups of performance events: {error}"
        try:
            self.start(cgroup, self._cpus[0]).close()
        except OSError as error:
            return perf_events.explain(error, self._paranoid())
        finally:
            os.close(cgroup)
        return None

    async def collect(self) -> None:
        """Count in one window, or in several where all containers at once would take too many open files."""
        window = self.handle.flags.duration(WINDOW_FLAG).total_seconds()
        self._cpus = sorted(self._online())
        containers = [each for each in self.groups.current() if each.group.container_id]
        counted: set[CountedGroup] = set()
        at_once = self._at_once()
        for first in range(0, len(containers), at_once):
            running: list[CountedGroup] = []
            try:
                for each in containers[first : first + at_once]:
                    if each.start(self.start, self._cpus):
                        running.append(each)
                    await asyncio.sleep(0)
                await asyncio.sleep(window)
                now = self.handle.clock.now().timestamp()
                for each in running:
                    each.finish(now)
                    await asyncio.sleep(0)
            finally:
                for each in running:
                    each.stop()
            counted.update(running)
        for each in containers:
            if each not in counted:
                each.values = None

    def start(self, cgroup: int, cpu: int) -> "Counting":
        """Start to count in a cgroup on a CPU. Raises OSError."""
        from .perf_events import CYCLES_AND_INSTRUCTIONS, Counters

        return Counters(cgroup, cpu, CYCLES_AND_INSTRUCTIONS, grouped=self.handle.gates.enabled(LIBPFM4))

    def values(self) -> Iterable[tuple[tuple[str, ...], float]]:
        """Yield labels and values of the gauge."""
        for each in self.groups.items:
            if each.values is None:
                continue
            group = each.group
            container = (self.handle.node_name, group.container_id, group.container_name)
            labels = (*container, group.pod_uid, group.pod_name, group.namespace)
            for field, value in zip(("cycles", "instructions"), each.values, strict=True):
                yield (*labels, field), value

    def _group(self, group: Group) -> "CountedGroup":
        from .counted_group import CountedGroup

        return CountedGroup(group, self.handle)

    def _online(self) -> frozenset[int]:
        """Return the CPUs that run. Raises OSError."""
        path = self.handle.sys_root / "devices/system/cpu/online"
        try:
            return cpuset.parse(path.read_text(encoding="ascii")) or frozenset({0})
        except ValueError as error:
            raise OSError(f"{path}: {error}") from None

    def _at_once(self) -> int:
        """Return how many containers are counted at the same time: two files for each CPU."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = 65536 if soft == resource.RLIM_INFINITY else soft // 4
        return max(allowed // (2 * len(self._cpus)), 1)

    def _paranoid(self) -> str:
        try:
            path = self.handle.proc_root / "sys/kernel/perf_event_paranoid"
            return path.read_text(encoding="ascii").strip()
        except OSError:
            return "unknown"
