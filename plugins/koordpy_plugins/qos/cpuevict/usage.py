"""CPUEvict: evict pods of low priority when the node uses too much CPU."""

from collections.abc import Sequence

from koordpy.agent.interface import PodMeta
from koordpy.agent.interface.gates import CPU_EVICT
from koordpy.agent.toolkit.eviction import candidates
from koordpy.agent.toolkit.eviction.tasks import Amounts, Candidate, EvictionTask, ReleaseTarget
from koordpy.agent.toolkit.eviction.thresholds import priority_threshold, used_percentages
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.api import quantity
from koordpy.api.core import Node, Pod
from koordpy.api.resource_names import CPU
from koordpy.api.slo.threshold import ResourceThresholdStrategy
from koordpy.lib import duration, int64


def task(
    metrics: MetricQueries, thresholds: ResourceThresholdStrategy, node: Node, pods: Sequence[PodMeta]
) -> EvictionTask | None:
    """Return the task; None while usage is below the threshold. Raises InvalidThresholdError."""
    threshold, lower = used_percentages(
        "CPUEvictThresholdPercent",
        thresholds.cpu_evict_threshold_percent,
        thresholds.cpu_evict_lower_percent,
    )
    highest = priority_threshold(thresholds.evict_enabled_priority_threshold)
    window = duration.of_seconds(window_of(metrics, thresholds))
    used = metrics.average("node_cpu_usage", window)
    if used is None:
        return None
    capacity = quantity.milli_value(node.status.capacity.get(CPU, 0))
    percent = int64.quotient(int64.from_float(used * 1000) * 100, capacity)
    if percent < threshold:
        return None
    return EvictionTask(
        CPU_EVICT,
        ReleaseTarget.USED,
        {CPU: int64.quotient(capacity * (percent - lower), 100)},
        candidates.by_priority(
            pods, CPU_EVICT, highest, CPU, lambda pod: milli_used(metrics, pod), lambda each: each.used
        ),
        _released_by,
    )


def window_of(metrics: MetricQueries, thresholds: ResourceThresholdStrategy) -> int:
    """Return the seconds over which usage is averaged: at least the collect interval."""
    return max(int(metrics.collect_interval.total_seconds()), thresholds.cpu_evict_time_window_seconds or 0)


def milli_used(metrics: MetricQueries, pod: Pod) -> int | None:
    """Return the milli-CPU that a pod uses; None if it was not measured."""
    last = metrics.last("pod_cpu_usage", {"pod_uid": pod.metadata.uid})
    return None if last is None else int64.from_float(last * 1000)


def _released_by(candidate: Candidate) -> Amounts:
    return {CPU: candidate.used}
