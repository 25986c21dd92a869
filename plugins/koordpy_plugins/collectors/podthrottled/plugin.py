"""podthrottled: the share of CFS periods in which pods and containers were throttled, every second.

A group in which no period has passed since the last reading is idle or has no CPU quota; it is read only
every few seconds, and 0 is stored meanwhile. Rules: Koordinator,
pkg/koordlet/metricsadvisor/collectors/podthrottled.
"""

from typing import ClassVar, Literal

from koordpy.agent.interface import COLLECT_INTERVAL, KINDS, Collector, Handle, MetricKind
from koordpy.agent.toolkit import stat_text
from koordpy.agent.toolkit.kept_file import KeptFile
from koordpy.agent.toolkit.pod_filter import every_pod, not_terminated
from koordpy.agent.toolkit.pod_groups import Group, PodGroups
from koordpy.api.plugin import PluginArgs

IDLE_SECONDS = 5.0
"""The time between two readings of a group without CFS periods."""


class PodThrottledArgs(PluginArgs):
    """Which pods are measured: `Running` leaves out those whose phase is neither Pending nor Running."""

    pods: Literal["All", "Running"] = "All"


class ThrottledGroup:
    """The cpu.stat of one group, and its last numbers."""

    __slots__ = ("file", "periods", "series", "throttled", "wait")

    def __init__(self, group: Group, handle: Handle) -> None:
        self.file = KeptFile(handle.cgroups.path("cpu.stat", group.directory))
        self.series = handle.metrics.series(f"{group.level}_cpu_throttled", group.properties)
        self.periods = -1
        self.throttled = 0
        self.wait = 0

    def ratio(self) -> float | None:
        """Return the share of throttled periods since the last reading; None for the first.

        Raises OSError or ValueError.
        """
        text = self.file.read()
        periods = stat_text.number(text, b"nr_periods ")
        throttled = stat_text.number(text, b"nr_throttled ")
        before, throttled_before = self.periods, self.throttled
        self.periods, self.throttled = periods, throttled
        if before < 0:
            return None
        passed = periods - before
        return max(throttled - throttled_before, 0) / passed if passed > 0 else 0.0

    def close(self) -> None:
        """Close the file and drop the series."""
        self.file.close()
        self.series.close()


class PodThrottled(Collector):
    """The collector of throttling."""

    name: ClassVar[str] = "podthrottled"
    args: PodThrottledArgs
    kinds: ClassVar[tuple[MetricKind, ...]] = (KINDS["pod_cpu_throttled"], KINDS["container_cpu_throttled"])
    groups: PodGroups[ThrottledGroup]

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        interval = handle.flags.duration(COLLECT_INTERVAL).total_seconds()
        self._idle_rounds = max(round(IDLE_SECONDS / interval), 1) - 1 if interval > 0 else 0

    def setup(self) -> None:
        """Follow the node's pods."""
        pod_filter = every_pod if self.args.pods == "All" else not_terminated
        self.groups = PodGroups(self.handle, self.name, self._make, pod_filter)

    def collect(self) -> None:
        """Store the ratio of every pod and container that has cgroups."""
        now = int(self.handle.clock.now().timestamp() * 1000 + 0.001)
        idle_rounds = self._idle_rounds
        for group in self.groups.current():
            if group.wait:
                group.wait -= 1
                if group.periods >= 0:
                    group.series.append(0.0, now)
                continue
            before = group.periods
            try:
                ratio = group.ratio()
            except (OSError, ValueError):
                group.periods = -1
                group.wait = idle_rounds
                continue
            if group.periods == before:
                group.wait = idle_rounds
            if ratio is not None:
                group.series.append(ratio, now)

    def _make(self, group: Group) -> ThrottledGroup:
        return ThrottledGroup(group, self.handle)
