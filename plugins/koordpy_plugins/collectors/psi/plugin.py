"""psi: pressure stall information of pods and containers, every ten seconds (gate PSICollector).

The shares of the last ten seconds in which some or all tasks waited for CPU, memory or I/O, in percent. On
cgroup v1 only some kernels have it. Rules: Koordinator, pkg/koordlet/metricsadvisor/collectors/performance.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import ClassVar

from koordpy.agent.interface import KINDS, CgroupError, Collector, FlagSet, Handle, MetricKind
from koordpy.agent.interface.gates import PSI_COLLECTOR
from koordpy.agent.toolkit.pod_groups import Group, PodGroups
from koordpy.agent.toolkit.scraped_gauge import ScrapedGauge

INTERVAL_FLAG = "psi-collector-interval"
RESOURCES = {"cpu": "cpu", "memory": "mem", "io": "io"}
"""The names of pressure files, and of the series' property."""
DEGREES = ("some", "full")

_LABELS = ("pod_uid", "pod_name", "pod_namespace", "psi_resource_type", "psi_precision", "psi_degree")
_CONTAINER_LABELS = ("node", "container_id", "container_name", *_LABELS, "cpu_full_supported")
POD_PSI = ScrapedGauge("koordlet_pod_psi", "Pressure of pods.", ("node", *_LABELS, "cpu_full_supported"))
CONTAINER_PSI = ScrapedGauge("koordlet_container_psi", "Pressure of containers.", _CONTAINER_LABELS)


class PressedGroup:
    """The pressure files of one group, and what they last said."""

    def __init__(self, group: Group, handle: Handle) -> None:
        self.group, self._cgroups = group, handle.cgroups
        self.values: dict[tuple[str, str], float] = {}
        self.full_supported = False
        of = {"pod_uid": group.pod_uid, **group.properties}
        self._series = {
            (resource, degree): handle.metrics.series(
                f"{group.level}_psi",
                {**of, "psi_resource": resource, "psi_precision": "10", "psi_degree": degree},
            )
            for resource in RESOURCES.values()
            for degree in DEGREES
        }
        self._supported = handle.metrics.series(f"{group.level}_psi_cpu_full_supported", of)

    def measure(self, now: float) -> None:
        """Read and store all three files, or nothing. Raises CgroupError."""
        self.values = {}
        stalls = {
            name: self._cgroups.pressure(file, self.group.directory) for file, name in RESOURCES.items()
        }
        for name, stall in stalls.items():
            self.values[name, "some"] = stall.some.avg10
            self.values[name, "full"] = stall.full.avg10 if stall.full is not None else 0.0
        self.full_supported = stalls["cpu"].full is not None
        for key, value in self.values.items():
            self._series[key].add(value, now)
        self._supported.add(float(self.full_supported), now)

    def close(self) -> None:
        """Drop the series."""
        for series in (*self._series.values(), self._supported):
            series.close()


class PSI(Collector):
    """The collector of pressure."""

    name: ClassVar[str] = "psi"
    feature: ClassVar[str | None] = PSI_COLLECTOR
    interval_flag: ClassVar[str] = INTERVAL_FLAG
    kinds: ClassVar[tuple[MetricKind, ...]] = tuple(
        KINDS[f"{level}_psi{suffix}"]
        for level in ("container", "pod")
        for suffix in ("", "_cpu_full_supported")
    )
    groups: PodGroups[PressedGroup]

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval."""
        flags.declare(INTERVAL_FLAG, timedelta(seconds=10), "time between two readings of pressure")

    def setup(self) -> None:
        """Follow the node's pods, and publish the gauges."""
        self.groups = PodGroups(self.handle, self.name, lambda group: PressedGroup(group, self.handle))
        POD_PSI.publish(self, lambda psi: psi.values("pod"))
        CONTAINER_PSI.publish(self, lambda psi: psi.values("container"))

    def idle_reason(self) -> str | None:
        """Say which pressure file this kernel lacks."""
        for resource in RESOURCES:
            if (reason := self.handle.cgroups.supported(f"{resource}.pressure")) is not None:
                return f"the kernel has no pressure stall information of cgroups: {reason}"
        return None

    def collect(self) -> None:
        """Measure every group that has pressure files."""
        now = self.handle.clock.now().timestamp()
        for group in self.groups.current():
            try:
                group.measure(now)
            except CgroupError:
                continue

    def values(self, level: str) -> Iterable[tuple[tuple[str, ...], float]]:
        """Yield labels and values of the gauge of pods or of containers."""
        for pressed in self.groups.items:
            group = pressed.group
            if group.level != level:
                continue
            first = (group.container_id, group.container_name) if group.container_id else ()
            pod = (group.pod_uid, group.pod_name, group.namespace)
            supported = "true" if pressed.full_supported else "false"
            for (resource, degree), value in pressed.values.items():
                labels = (self.handle.node_name, *first, *pod, resource, "avg10", degree, supported)
                yield labels, value
