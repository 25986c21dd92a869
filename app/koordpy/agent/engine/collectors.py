"""Measures this node: stores samples from procfs and cgroup files in the metric cache.

Formulas are Koordinator's (pkg/koordlet/metricsadvisor). The first reading of a counter stores nothing; an
object that cannot be read does not prevent measuring the others.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.engine import node_info
from koordpy.agent.interface.cgroups import CgroupError
from koordpy.agent.interface.collector import CollectError
from koordpy.agent.interface.facts import NODE_CPU_INFO
from koordpy.agent.interface.metrics import Sample
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.states.informer import StatesInformer
from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

JIFFIES_PER_SECOND = 100
_BUSY_FIELDS = (0, 1, 2, 5, 6)
"""user, nice, system, irq and softirq of a line of /proc/stat."""


@dataclass(frozen=True)
class _Reading:
    total: int
    at: float


class Rates:
    """Converts counters into rates per second."""

    def __init__(self) -> None:
        self._last: dict[str, _Reading] = {}

    def rate(self, key: str, total: int, at: float) -> float | None:
        """Return units per second since the last reading of a key; None for the first, or after a reset."""
        last = self._last.get(key)
        self._last[key] = _Reading(total, at)
        if last is None or at <= last.at or total < last.total:
            return None
        return (total - last.total) / (at - last.at)

    def keep(self, keys: Iterable[str]) -> None:
        """Forget readings of objects that are gone."""
        wanted = set(keys)
        self._last = {key: reading for key, reading in self._last.items() if key in wanted}


class Collectors:
    """All collectors of one node; `collect` runs them once."""

    def __init__(
        self,
        states: StatesInformer,
        metrics: MetricCache,
        cgroups: CgroupFiles,
        clock: Clock,
        *,
        proc_root: Path = Path("/proc"),
        sys_root: Path = Path("/sys"),
    ) -> None:
        self._states, self._metrics, self._cgroups, self._clock = states, metrics, cgroups, clock
        self._proc, self._sys = proc_root, sys_root
        self._node_cpu = Rates()
        self._cpu = Rates()
        self.synced = False
        """Whether node usage was measured once."""

    def collect(self) -> None:
        """Measure node, pods and host applications. Raises CollectError if the node cannot be measured."""
        now, at = self._clock.now(), self._clock.monotonic()
        samples = self._node(now, at)
        pods, seen = self._pods(now, at)
        applications, also_seen = self._applications(now, at)
        self._cpu.keep(seen | also_seen)
        self._metrics.append(samples + pods + applications)
        self._metrics.collect()
        self.synced = self.synced or bool(samples)

    def collect_node_info(self) -> None:
        """Read the node's processors. Raises CollectError if sysfs has an unexpected format."""
        try:
            self._metrics.set_fact(NODE_CPU_INFO, node_info.read(self._sys))
        except (OSError, ValueError) as error:
            raise CollectError(f"cannot read the CPU topology below {self._sys}: {error}") from None

    def _node(self, now: datetime, at: float) -> list[Sample]:
        line = self._text("stat").partition("\n")[0].split()
        if len(line) < 8 or line[0] != "cpu":
            raise CollectError(f"{self._proc / 'stat'} does not begin with a line of CPU times")
        busy = self._node_cpu.rate("node", sum(int(line[1 + i]) for i in _BUSY_FIELDS), at)
        if busy is None:
            return []
        memory = self._meminfo()
        used = (memory["MemTotal"] - memory["MemAvailable"]) * 1024
        return [
            Sample("node_cpu_usage", busy / JIFFIES_PER_SECOND, now, {}),
            Sample("node_memory_usage", used, now, {}),
        ]

    def _pods(self, now: datetime, at: float) -> tuple[list[Sample], set[str]]:
        samples: list[Sample] = []
        seen: set[str] = set()
        for meta in self._states.pods():
            uid = meta.pod.metadata.uid
            seen.add(uid)
            samples += self._group(uid, meta.cgroup_dir, now, at, "pod", {"pod_uid": uid})
        return samples, seen

    def _applications(self, now: datetime, at: float) -> tuple[list[Sample], set[str]]:
        slo = self._states.node_slo()
        samples: list[Sample] = []
        seen: set[str] = set()
        for application in slo.host_applications if slo is not None else []:
            name = application.name
            key = f"host-application/{name}"
            seen.add(key)
            directory = self._states.layout.host_application(application)
            samples += self._group(key, directory, now, at, "host_application", {"host_app_name": name})
        return samples, seen

    def _group(
        self, key: str, directory: str, now: datetime, at: float, kind: str, properties: dict[str, str]
    ) -> list[Sample]:
        try:
            rate = self._cpu.rate(key, self._cgroups.cpu_usage_ns(directory), at)
            if rate is None:
                return []
            memory = self._cgroups.memory_in_use(directory)
        except CgroupError as error:
            log.debug("%s is not measured: %s", key, error)
            return []
        return [
            Sample(f"{kind}_cpu_usage", rate / 1e9, now, properties),
            Sample(f"{kind}_memory_usage", memory, now, properties),
        ]

    def _meminfo(self) -> dict[str, int]:
        fields: dict[str, int] = {}
        for line in self._text("meminfo").splitlines():
            name, _, value = line.partition(":")
            if value.split():
                fields[name] = int(value.split()[0])
        for name in ("MemTotal", "MemAvailable"):
            if name not in fields:
                raise CollectError(f"{self._proc / 'meminfo'} has no {name}")
        return fields

    def _text(self, name: str) -> str:
        try:
            return (self._proc / name).read_text()
        except OSError as error:
            raise CollectError(f"cannot read {self._proc / name}: {error.strerror}") from None
