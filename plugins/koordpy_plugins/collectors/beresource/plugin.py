"""beresource: the CPU limit, request and usage of best-effort pods together, every second.

Values are in milli-CPU and whole. Rules: Koordinator, pkg/koordlet/metricsadvisor/collectors/beresource.
"""

import logging
from typing import Any, ClassVar

from prometheus_client import Gauge

from koordpy.agent.interface import (
    KINDS,
    CallbackTarget,
    CollectError,
    Collector,
    Handle,
    MetricKind,
    PodMeta,
    StateType,
)
from koordpy.agent.toolkit.cpu_time import CPUTime
from koordpy.agent.toolkit.kept_file import KeptFile
from koordpy.api import batch_resources, extension, qos
from koordpy.api.core import Pod
from koordpy.api.plugin import PluginArgs
from koordpy.api.quantity import QuantityError

from .best_effort_cpus import BestEffortCPUs

log = logging.getLogger(__name__)

USED_CORES = Gauge("koordlet_be_suppress_be_used_cpu_cores", "Cores used by best-effort pods.", ["node"])
_PERIOD_US = 100_000


class BestEffortResource(Collector):
    """The collector of best-effort CPU."""

    name: ClassVar[str] = "beresource"
    kinds: ClassVar[tuple[MetricKind, ...]] = (KINDS["node_be"],)

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        directory = handle.layout.qos("BestEffort")
        self._cpus = BestEffortCPUs(handle.cgroups, handle.executor, directory)
        self._time = CPUTime(handle.cgroups, directory)
        self._quota = KeptFile(handle.cgroups.path("cpu.cfs_quota_us", directory))
        self._period = KeptFile(handle.cgroups.path("cpu.cfs_period_us", directory))
        self._last: tuple[int, float] | None = None
        self._request: int | None = None
        self._used = USED_CORES.labels(handle.node_name)
        self._series = {
            allocation: handle.metrics.series("node_be", {"be_resource": "cpu", "be_allocation": allocation})
            for allocation in ("real-limit", "request", "usage")
        }

    def setup(self) -> None:
        """Follow the node's pods."""
        self.handle.states.register_callbacks(
            StateType.ALL_PODS, self.name, "adds up requests of best-effort pods", self._pods_changed
        )

    def collect(self) -> None:
        """Measure all three. Raises CollectError if one cannot be measured."""
        if self._request is None:
            self._request = _request(self.handle.states.pods())
        try:
            limit = self._limit()
            used = self._usage()
        except (OSError, ValueError) as error:
            raise CollectError(f"cannot measure best-effort pods: {error}") from None
        now = self.handle.clock.now().timestamp()
        self._series["real-limit"].add(limit, now)
        self._series["request"].add(self._request, now)
        self._series["usage"].add(used, now)
        self._used.set(used / 1000)

    def _limit(self) -> int:
        cpus = self._cpus.count() * 1000
        quota, period = self._bandwidth()
        return cpus if quota == -1 else min(cpus, quota * 1000 // period)

    def _bandwidth(self) -> tuple[int, int]:
        if not self.handle.cgroups.unified:
            quota = int(self._quota.read())
            return quota, int(self._period.read()) if quota != -1 else _PERIOD_US
        first, period = self._quota.read().split()
        return -1 if first == b"max" else int(first), int(period)

    def _usage(self) -> int:
        total, at = self._time.read(), self.handle.clock.monotonic()
        last, self._last = self._last, (total, at)
        if last is None:
            return 0
        # Both differences are whole milliseconds, as in Koordinator.
        milliseconds = int((at - last[1]) * 1000)
        used = max(total - last[0], 0) // 1_000_000
        return int(used / milliseconds * 1000) if milliseconds > 0 else 0

    def _pods_changed(self, type_: StateType, state: Any, target: CallbackTarget) -> None:
        self._request = _request(target.pods)
        self._cpus.forget()


def _request(pods: list[PodMeta]) -> int:
    return sum(_of_pod(meta.pod) for meta in pods if qos.qos_class_raw(meta.pod) == "BE")


def _of_pod(pod: Pod) -> int:
    try:
        return max(batch_resources.pod_batch_request(pod, extension.BATCH_CPU), 0)
    except QuantityError as error:
        log.warning("requests of pod %s do not count: %.200s", pod.metadata.key, error)
        return 0
