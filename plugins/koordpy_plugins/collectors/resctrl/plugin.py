"""resctrl: last level cache and memory bandwidth of the groups LSR, LS and BE (gate ResctrlCollector).

It also needs --enable-resctrl-collector, and a processor that counts them. Rules: Koordinator,
pkg/koordlet/metricsadvisor/collectors/resctrl; unlike there, memory bandwidth is stored, too: its samples
have the properties that their kind declares.
"""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from koordpy.agent.interface import KINDS, Collector, FlagSet, Handle, MetricKind
from koordpy.agent.interface.gates import RESCTRL_COLLECTOR
from koordpy.agent.toolkit.kept_file import read_once
from koordpy.agent.toolkit.scraped_gauge import ScrapedGauge
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs

ENABLE_FLAG = "enable-resctrl-collector"
INTERVAL_FLAG = "resctrl-collector-interval"
CLASSES = ("LSR", "LS", "BE")
BANDWIDTHS = ("mbm_local_bytes", "mbm_total_bytes")

LLC = ScrapedGauge(
    "koordlet_resctrl_llc_occupancy", "Bytes of the last level cache in use.", ("node", "cache_id", "qos")
)
BANDWIDTH = ScrapedGauge(
    "koordlet_resctrl_memory_bandwidth", "Bytes moved so far.", ("node", "cache_id", "qos", "mb_type")
)


class Resctrl(Collector):
    """The collector of resctrl's counters."""

    name: ClassVar[str] = "resctrl"
    feature: ClassVar[str | None] = RESCTRL_COLLECTOR
    interval_flag: ClassVar[str] = INTERVAL_FLAG
    kinds: ClassVar[tuple[MetricKind, ...]] = (KINDS["resctrl_resource_llc"], KINDS["resctrl_resource_mb"])
    needs: ClassVar[Needs] = Needs(
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.SYS_FS,
                purpose="the counters of the resctrl file system, which the node has mounted",
                without="nothing is measured, and the log says that resctrl is not mounted",
                cpu_flag="cqm_mbm_total",
            ),
        )
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._root = handle.resctrl_root
        self._llc: dict[tuple[str, str], int] = {}
        self._bandwidth: dict[tuple[str, str, str], int] = {}

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the switch and the interval."""
        flags.declare(ENABLE_FLAG, False, "measure cache and memory bandwidth of the classes LSR, LS and BE")
        flags.declare(INTERVAL_FLAG, timedelta(seconds=10), "time between two readings of resctrl's counters")

    def setup(self) -> None:
        """Publish the gauges."""
        LLC.publish(self, Resctrl._llc_values)
        BANDWIDTH.publish(self, Resctrl._bandwidth_values)

    def idle_reason(self) -> str | None:
        """Say that the flag is off, or that the node does not count."""
        if not self.handle.flags.boolean(ENABLE_FLAG):
            return f"--{ENABLE_FLAG} is false"
        if not (self._root / "info/L3_MON").is_dir():
            return f"{self._root}/info/L3_MON does not exist: nothing is counted, or resctrl is not mounted"
        return None

    def collect(self) -> None:
        """Read the counters of every group that exists."""
        now, metrics = self.handle.clock.now().timestamp(), self.handle.metrics
        self._llc, self._bandwidth = {}, {}
        for qos in CLASSES:
            for domain in sorted((self._root / qos / "mon_data").glob("mon_L3_*")):
                cache = str(int(domain.name.rpartition("_")[2]))
                if (occupied := _counter(domain / "llc_occupancy")) is not None:
                    self._llc[cache, qos] = occupied
                    metrics.series("resctrl_resource_llc", {"qos": qos, "cache_id": cache}).add(occupied, now)
                for name in BANDWIDTHS:
                    if (moved := _counter(domain / name)) is not None:
                        self._bandwidth[cache, qos, name] = moved
                        of = {"qos": qos, "cache_id": cache, "resctrl_mb_type": name}
                        metrics.series("resctrl_resource_mb", of).add(moved, now)

    def _llc_values(self) -> Iterable[tuple[tuple[str, ...], float]]:
        return [((self.handle.node_name, *key), float(value)) for key, value in self._llc.items()]

    def _bandwidth_values(self) -> Iterable[tuple[tuple[str, ...], float]]:
        return [((self.handle.node_name, *key), float(value)) for key, value in self._bandwidth.items()]


def _counter(path: Path) -> int | None:
    """Return a counter; None where there is none, or it is `Unavailable`."""
    try:
        return int(read_once(path))
    except (OSError, ValueError):
        return None
