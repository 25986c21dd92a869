"""Prometheus metrics of evictions, with koordlet's names.

Koordlet's are counters without the suffix `_total`, which prometheus_client would add; so these are gauges
that only grow. A pod's series are dropped after five minutes, as koordlet does.
"""

from collections import OrderedDict
from typing import Final

from prometheus_client import Gauge

from koordpy.api.core import Pod
from koordpy.lib.clock import Clock

EVICTIONS: Final = Gauge("koordlet_pod_eviction", "Evictions launched by the agent.", ["node", "reason"])
DETAILS: Final = Gauge(
    "koordlet_pod_eviction_detail",
    "Evictions launched by the agent, by pod.",
    ["node", "pod_namespace", "pod_name", "reason"],
)

_DETAIL_SECONDS = 300.0
_MOST_DETAILS = 1000


class EvictionMetrics:
    """Counts evictions on one node."""

    def __init__(self, node_name: str, clock: Clock) -> None:
        self._node_name, self._clock = node_name, clock
        self._detailed: OrderedDict[tuple[str, str, str, str], float] = OrderedDict()

    def count(self, pod: Pod, reason: str) -> None:
        """Count an eviction."""
        now = self._clock.monotonic()
        EVICTIONS.labels(self._node_name, reason).inc()
        key = (self._node_name, pod.metadata.namespace, pod.metadata.name, reason)
        DETAILS.labels(*key).inc()
        self._detailed[key] = now
        self._detailed.move_to_end(key)
        self._expire(now)

    def expire(self) -> None:
        """Drop the series of pods that were evicted more than five minutes ago."""
        self._expire(self._clock.monotonic())

    def _expire(self, now: float) -> None:
        while self._detailed:
            key, at = next(iter(self._detailed.items()))
            if now - at < _DETAIL_SECONDS and len(self._detailed) <= _MOST_DETAILS:
                return
            del self._detailed[key]
            DETAILS.remove(*key)
