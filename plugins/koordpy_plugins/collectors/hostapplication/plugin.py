"""hostapplication: CPU and memory of the applications of NodeSLO `hostApplications`, every second.

Without a NodeSLO nothing is measured, and the usage of the system is not computed. Rules: Koordinator,
pkg/koordlet/metricsadvisor/collectors/hostapplication.
"""

import logging
from collections.abc import Iterable
from typing import ClassVar

from koordpy.agent.interface import COLLECT_INTERVAL, KINDS, Collector, Handle, MetricKind
from koordpy.agent.interface.facts import HOST_APPLICATIONS_USAGE, Usage
from koordpy.agent.toolkit import collect_policy
from koordpy.agent.toolkit.collect_policy import MemoryPolicy
from koordpy.agent.toolkit.cpu_time import EXPIRED_INTERVALS, CPUTime
from koordpy.agent.toolkit.kept_file import KeptFile
from koordpy.agent.toolkit.memory_stat import MemoryStat
from koordpy.agent.toolkit.scraped_gauge import ScrapedGauge
from koordpy.api.koordinator import NodeMetric
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo.host_application import HostApplicationSpec
from koordpy.cluster.selector import Selector
from koordpy.cluster.store import Store

log = logging.getLogger(__name__)

USAGE = ScrapedGauge(
    "koordlet_host_application_resource_usage",
    "Usage of host applications: cores and bytes.",
    ["node", "host_application_name", "resource", "priority_class", "qos"],
)


class MeasuredApplication:
    """A host application: its files, its series, and its latest usage."""

    def __init__(self, spec: HostApplicationSpec, handle: Handle) -> None:
        directory, properties = handle.layout.host_application(spec), {"host_app_name": spec.name}
        self.spec = spec
        self.cpu: float | None = None
        self.memory = 0
        self.with_page_cache = 0
        self._time = CPUTime(handle.cgroups, directory)
        self._stat = KeptFile(handle.cgroups.path("memory.stat", directory))
        self._used = KeptFile(handle.cgroups.path("memory.usage_in_bytes", directory))
        self._memory_stat = MemoryStat(unified=handle.cgroups.unified)
        self._series = [
            handle.metrics.series(f"host_application_{what}", properties)
            for what in ("cpu_usage", "memory_usage", "memory_usage_with_page_cache")
        ]

    def measure(self, at: float, now: float, expiry: float) -> None:
        """Measure once. Raises OSError or ValueError."""
        self.cpu = None
        memory = self._memory_stat.in_use(self._stat.read())
        with_page_cache = int(self._used.read())
        self.cpu = self._time.usage(at, expiry)
        if self.cpu is None:
            return
        self.memory, self.with_page_cache = memory, with_page_cache
        for series, value in zip(self._series, (self.cpu, memory, with_page_cache), strict=True):
            series.add(value, now)

    def close(self) -> None:
        """Close all files and drop the series."""
        self._time.close()
        self._stat.close()
        self._used.close()
        for series in self._series:
            series.close()


class HostApplication(Collector):
    """The collector of host applications."""

    name: ClassVar[str] = "hostapplication"
    kinds: ClassVar[tuple[MetricKind, ...]] = (
        KINDS["host_application_cpu_usage"],
        KINDS["host_application_memory_usage"],
        KINDS["host_application_memory_usage_with_page_cache"],
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._expiry = EXPIRED_INTERVALS * handle.flags.duration(COLLECT_INTERVAL).total_seconds()
        self._specs: list[HostApplicationSpec] = []
        self._reported: Store[NodeMetric] | None = None
        self._measured: list[MeasuredApplication] = []

    def setup(self) -> None:
        """Follow the node's NodeMetric, and publish the gauge."""
        handle = self.handle
        itself = Selector(fields=f"metadata.name={handle.node_name}")
        self._reported = handle.cluster.store(NodeMetric, selector=itself, optional=True)
        USAGE.publish(self, HostApplication._gauge)

    def collect(self) -> None:
        """Measure every application whose cgroup can be read."""
        handle = self.handle
        slo = handle.states.node_slo()
        if slo is None:
            return
        if slo.host_applications != self._specs:
            self._follow(slo.host_applications)
        at, now = handle.clock.monotonic(), handle.clock.now().timestamp()
        with_page_cache = self._with_page_cache()
        cpu = memory = 0.0
        for application in self._measured:
            try:
                application.measure(at, now, self._expiry)
            except (OSError, ValueError) as error:
                log.debug("host application %s is not measured: %s", application.spec.name, error)
                continue
            if application.cpu is not None:
                cpu += application.cpu
                memory += application.with_page_cache if with_page_cache else application.memory
        handle.metrics.set_fact(HOST_APPLICATIONS_USAGE, Usage(cpu, memory, now))

    def _with_page_cache(self) -> bool:
        """Return whether the sum has page cache: NodeMetric `nodeMemoryCollectPolicy`."""
        reported = self._reported.get("", self.handle.node_name) if self._reported is not None else None
        if reported is None:
            return False
        return collect_policy.completed(reported.spec).memory == MemoryPolicy.WITH_PAGE_CACHE

    def _follow(self, specs: list[HostApplicationSpec]) -> None:
        known = {application.spec: application for application in self._measured}
        for spec, application in known.items():
            if spec not in specs:
                application.close()
        self._measured = [
            known[spec] if spec in known else MeasuredApplication(spec, self.handle) for spec in specs
        ]
        self._specs = list(specs)

    def _gauge(self) -> Iterable[tuple[list[str], float]]:
        for application in self._measured:
            if application.cpu is None:
                continue
            spec = application.spec
            for resource, value in (("cpu", application.cpu), ("memory", float(application.memory))):
                yield [self.handle.node_name, spec.name, resource, spec.priority, spec.qos], value
