"""coldmemoryresource: memory that was not used for a while, and usage without it (gate ColdPageCollector).

kidled, of some kernels, counts the age of pages; pages that were idle for `COLD_BOUNDARY` scans or more are
cold. Rules: Koordinator, pkg/koordlet/metricsadvisor/collectors/coldmemoryresource.
"""

from datetime import timedelta
from typing import ClassVar

from koordpy.agent.interface import KINDS, CgroupError, CollectError, Collector, FlagSet, MetricKind, Update
from koordpy.agent.interface.facts import COLD_MEMORY_MEASURED
from koordpy.agent.interface.gates import COLD_PAGE_COLLECTOR
from koordpy.agent.toolkit import stat_text
from koordpy.agent.toolkit.kept_file import read_once
from koordpy.agent.toolkit.memory_stat import MemoryStat
from koordpy.agent.toolkit.pod_filter import every_pod
from koordpy.agent.toolkit.pod_groups import groups
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed

from .idle_page_stats import cold_bytes

INTERVAL_FLAG = "coldpage-collector-interval"
SCAN_SECONDS = 5
_SETTINGS = {"kidled.scan_period_in_seconds": str(SCAN_SECONDS), "kidled.use_hierarchy": "1"}


class ColdMemoryResource(Collector):
    """The collector of cold memory."""

    name: ClassVar[str] = "coldmemoryresource"
    feature: ClassVar[str | None] = COLD_PAGE_COLLECTOR
    interval_flag: ClassVar[str] = INTERVAL_FLAG
    kinds: ClassVar[tuple[MetricKind, ...]] = tuple(
        KINDS[f"{level}_memory_{what}"]
        for level in ("node", "pod", "container", "host_application")
        for what in ("cold_page_size", "with_hot_page_usage")
    )
    needs: ClassVar[Needs] = Needs(
        elsewhere=("a kernel with kidled (Anolis OS, Alibaba Cloud Linux)",),
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.SYS,
                purpose="starting kidled",
                without="nothing is measured unless kidled runs already, the agent is not ready and says why",
            ),
        ),
    )

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval."""
        flags.declare(INTERVAL_FLAG, timedelta(seconds=5), "time between two readings of cold memory")

    def idle_reason(self) -> str | None:
        """Say what the kernel lacks."""
        for name in (*_SETTINGS, "memory.idle_page_stats"):
            if (reason := self.handle.cgroups.supported(name)) is not None:
                return f"the kernel does not have kidled: {reason}"
        return None

    def collect(self) -> None:
        """Start kidled, and measure the node, pods, containers and host applications. Raises CollectError."""
        handle = self.handle
        try:
            for name, value in _SETTINGS.items():
                handle.executor.update(Update(name, "", value, "StartKidled"))
        except CgroupError as error:
            raise CollectError(f"cannot start kidled: {error}") from None
        now = handle.clock.now().timestamp()
        try:
            cold = cold_bytes(handle.cgroups.read("memory.idle_page_stats", ""))
            meminfo = read_once(handle.proc_root / "meminfo")
            used = stat_text.kib(meminfo, b"MemTotal:") - stat_text.kib(meminfo, b"MemFree:")
        except (OSError, ValueError) as error:
            raise CollectError(f"cannot measure cold memory of the node: {error}") from None
        handle.metrics.series("node_memory_cold_page_size").add(cold, now)
        handle.metrics.series("node_memory_with_hot_page_usage").add(used - cold, now)
        for group in groups(handle.states.pods(), handle.layout, every_pod):
            self._measure(group.directory, group.level, group.properties, now)
        slo = handle.states.node_slo()
        for application in slo.host_applications if slo is not None else ():
            directory = handle.layout.host_application(application)
            self._measure(directory, "host_application", {"host_app_name": application.name}, now)
        handle.metrics.set_fact(COLD_MEMORY_MEASURED, True)

    def _measure(self, directory: str, level: str, properties: dict[str, str], now: float) -> None:
        cgroups, metrics = self.handle.cgroups, self.handle.metrics
        try:
            cold = cold_bytes(cgroups.read("memory.idle_page_stats", directory))
            stat = MemoryStat(unified=cgroups.unified)
            used = stat.with_page_cache(read_once(cgroups.path("memory.stat", directory)))
        except (OSError, ValueError):
            return
        metrics.series(f"{level}_memory_cold_page_size", properties).add(cold, now)
        metrics.series(f"{level}_memory_with_hot_page_usage", properties).add(used - cold, now)
