"""Arguments of LowNodeUtilization, as in the Kubernetes descheduler."""

from collections.abc import Iterable
from typing import Final

from koordpy.api.config_model import Int64
from koordpy.api.field_error import FieldError
from koordpy.descheduling.toolkit.node_utilization import thresholds_problem
from koordpy.descheduling.toolkit.upstream_args import (
    Percentages,
    Uint,
    UpstreamArgs,
    UpstreamNamespaces,
    UpstreamObject,
    problem,
)

KUBERNETES_METRICS: Final = "KubernetesMetrics"
PROMETHEUS: Final = "Prometheus"


class Prometheus(UpstreamObject):
    """A query for the utilization of nodes."""

    query: str = ""


class MetricsUtilization(UpstreamObject):
    """A source of actual usage, which the descheduler has and Koordinator does not."""

    metrics_server: bool = False
    source: str = ""
    prometheus: Prometheus | None = None


class EvictionLimits(UpstreamObject):
    """The most evictions in one run of the plugin."""

    node: Uint | None = None


class LowNodeUtilizationArgs(UpstreamArgs):
    """Arguments of the plugin."""

    use_deviation_thresholds: bool = False
    """Whether thresholds are distances from the mean of all nodes."""
    thresholds: Percentages = {}
    """A schedulable node whose requests are at or below all of them is underutilized."""
    target_thresholds: Percentages = {}
    """A node whose requests are above one of them is overutilized."""
    number_of_nodes: Int64 = 0
    """Nothing is evicted with at most as many underutilized nodes."""
    metrics_utilization: MetricsUtilization | None = None
    evictable_namespaces: UpstreamNamespaces | None = None
    """Only namespaces to exclude; their pods count as usage."""
    eviction_limits: EvictionLimits | None = None

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does: only the first error."""
        if self.evictable_namespaces is not None and self.evictable_namespaces.include:
            yield problem("only Exclude namespaces can be set, inclusion is not supported")
        elif text := self._threshold_problem() or self._metrics_problem():
            yield problem(text)

    def _threshold_problem(self) -> str:
        for name, thresholds in (
            ("thresholds", self.thresholds),
            ("targetThresholds", self.target_thresholds),
        ):
            if text := thresholds_problem(thresholds):
                return f"{name} config is not valid: {text}"
        if self.thresholds.keys() != self.target_thresholds.keys():
            return "thresholds and targetThresholds configured different resources"
        if self.use_deviation_thresholds:
            return ""
        for resource in sorted(self.thresholds):
            if self.thresholds[resource] > self.target_thresholds[resource]:
                return f"thresholds' {resource} percentage is greater than targetThresholds'"
        return ""

    def _metrics_problem(self) -> str:
        metrics = self.metrics_utilization
        if metrics is None:
            return ""
        if metrics.source == KUBERNETES_METRICS:
            if metrics.metrics_server:
                return f'it is not allowed to set both "{KUBERNETES_METRICS}" source and metricsServer'
            if metrics.prometheus is not None:
                return (
                    "prometheus configuration is not allowed to set when source is set to "
                    f'"{KUBERNETES_METRICS}"'
                )
        if metrics.source == PROMETHEUS and not (metrics.prometheus and metrics.prometheus.query):
            return f'prometheus query is required when metrics source is set to "{PROMETHEUS}"'
        return ""
