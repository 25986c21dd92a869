"""pagecache: memory usage with page cache of the node, pods and containers (--enable-pagecache-collector).

Rules: Koordinator, pkg/koordlet/metricsadvisor/collectors/pagecache.
"""

from typing import ClassVar

from koordpy.agent.interface import KINDS, CollectError, Collector, FlagSet, Handle, MetricKind
from koordpy.agent.toolkit import stat_text
from koordpy.agent.toolkit.kept_file import KeptFile
from koordpy.agent.toolkit.memory_stat import MemoryStat
from koordpy.agent.toolkit.pod_groups import Group, PodGroups
from koordpy.api.plugin import PluginArgs

ENABLE_FLAG = "enable-pagecache-collector"


class CachedGroup:
    """The memory.stat of one group."""

    __slots__ = ("_file", "_memory_stat", "_series")

    def __init__(self, group: Group, handle: Handle) -> None:
        self._file = KeptFile(handle.cgroups.path("memory.stat", group.directory))
        self._memory_stat = MemoryStat(unified=handle.cgroups.unified)
        self._series = handle.metrics.series(f"{group.level}_memory_usage_with_page_cache", group.properties)

    def measure(self, now: float) -> None:
        """Store the usage. Raises OSError or ValueError."""
        self._series.add(self._memory_stat.with_page_cache(self._file.read()), now)

    def close(self) -> None:
        """Close the file and drop the series."""
        self._file.close()
        self._series.close()


class PageCache(Collector):
    """The collector of page cache."""

    name: ClassVar[str] = "pagecache"
    kinds: ClassVar[tuple[MetricKind, ...]] = tuple(
        KINDS[f"{level}_memory_usage_with_page_cache"] for level in ("node", "pod", "container")
    )
    groups: PodGroups[CachedGroup]

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._meminfo = KeptFile(handle.proc_root / "meminfo")

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the switch."""
        flags.declare(ENABLE_FLAG, False, "measure memory usage with page cache")

    def idle_reason(self) -> str | None:
        """Say that the flag is off."""
        return None if self.handle.flags.boolean(ENABLE_FLAG) else f"--{ENABLE_FLAG} is false"

    def setup(self) -> None:
        """Follow the node's pods."""
        self.groups = PodGroups(self.handle, self.name, lambda group: CachedGroup(group, self.handle))

    def collect(self) -> None:
        """Measure the node, and every group that has cgroups. Raises CollectError."""
        now = self.handle.clock.now().timestamp()
        try:
            meminfo = self._meminfo.read()
            used = stat_text.kib(meminfo, b"MemTotal:") - stat_text.kib(meminfo, b"MemFree:")
        except (OSError, ValueError) as error:
            raise CollectError(f"cannot measure memory usage with {self._meminfo.path}: {error}") from None
        self.handle.metrics.series("node_memory_usage_with_page_cache").add(used, now)
        for group in self.groups.current():
            try:
                group.measure(now)
            except (OSError, ValueError):
                continue
