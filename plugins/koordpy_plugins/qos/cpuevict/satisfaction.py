"""BECPUEvict: evict best-effort pods when they get far less CPU than they request."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from koordpy.agent.interface import PodMeta
from koordpy.agent.interface.gates import BE_CPU_EVICT
from koordpy.agent.toolkit.eviction import candidates
from koordpy.agent.toolkit.eviction.tasks import Amounts, Candidate, EvictionTask, ReleaseTarget
from koordpy.agent.toolkit.eviction.thresholds import InvalidThresholdError
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.api import batch_resources, extension, quantity
from koordpy.api.core import Node, Pod
from koordpy.api.slo.threshold import ResourceThresholdStrategy
from koordpy.lib import duration, int64

from .usage import milli_used, window_of

EVICT_BY_ALLOCATABLE: Final = "evictByAllocatable"
"""The value of `cpuEvictPolicy` that compares requests with the node's batch-cpu, not with the real limit."""

_HIGHEST_LOWER, _HIGHEST_UPPER = 60, 100
_DEFAULT_USAGE_PERCENT = 90
_SMALL_LIMIT = 1000
"""Below a core, best-effort pods count as using all that they may."""
_NODE_BE: Final = "node_be"


@dataclass(frozen=True)
class Supply:
    """What best-effort pods use, request and may use: milli-CPU."""

    usage: float
    request: float
    limit: float


def task(
    metrics: MetricQueries, thresholds: ResourceThresholdStrategy, node: Node, pods: Sequence[PodMeta]
) -> EvictionTask | None:
    """Return the task; None if best-effort pods are satisfied. Raises InvalidThresholdError."""
    check(thresholds)
    release = _release(metrics, thresholds, node)
    if release is None:
        return None

    def candidate(pod: Pod) -> Candidate:
        return Candidate(pod, milli_used(metrics, pod) or 0, _batch_cpu(pod))

    return EvictionTask(
        BE_CPU_EVICT,
        ReleaseTarget.REQUESTED,
        {extension.BATCH_CPU: release * 1000},
        candidates.best_effort(pods, BE_CPU_EVICT, candidate, _less),
        _released_by,
    )


def check(thresholds: ResourceThresholdStrategy) -> None:
    """Raise InvalidThresholdError if the percentages are missing or out of range."""
    lower = thresholds.cpu_evict_be_satisfaction_lower_percent
    upper = thresholds.cpu_evict_be_satisfaction_upper_percent
    if lower is None or upper is None:
        raise InvalidThresholdError(
            "CPUEvictBESatisfactionLowerPercent or CPUEvictBESatisfactionUpperPercent not config"
        )
    if not 0 < lower <= _HIGHEST_LOWER:
        raise InvalidThresholdError(
            f"CPUEvictBESatisfactionLowerPercent({lower}) is not valid! must (0,{_HIGHEST_LOWER}]"
        )
    if not 0 < upper < _HIGHEST_UPPER:
        raise InvalidThresholdError(
            f"CPUEvictBESatisfactionUpperPercent({upper}) is not valid,must (0,{_HIGHEST_UPPER})"
        )
    if upper < lower:
        raise InvalidThresholdError(
            f"CPUEvictBESatisfactionUpperPercent({upper}) < CPUEvictBESatisfactionLowerPercent({lower})"
        )


def _release(metrics: MetricQueries, thresholds: ResourceThresholdStrategy, node: Node) -> int | None:
    """Return the milli-CPU of requests to release: what average and present values both ask for."""
    seconds = window_of(metrics, thresholds)
    window = duration.of_seconds(seconds)
    offered = float(_batch_allocatable(node)) if thresholds.cpu_evict_policy == EVICT_BY_ALLOCATABLE else None
    average, count = _average(metrics, window, offered)
    interval = int(metrics.collect_interval.total_seconds())
    if count * interval < seconds // 3 or not _uses_enough(average, thresholds):
        return None
    by_average = _gap(average, thresholds)
    if by_average <= 0:
        return None
    present = _present(metrics, offered)
    if not _uses_enough(present, thresholds):
        return None
    if (present.request, present.limit) == (average.request, average.limit):
        return by_average
    by_present = _gap(present, thresholds)
    return min(by_average, by_present) if by_present > 0 else None


def _average(metrics: MetricQueries, window: timedelta, offered: float | None) -> tuple[Supply, int]:
    counts: list[int] = []

    def of(allocation: str) -> float:
        properties = _properties(allocation)
        value = metrics.average(_NODE_BE, window, properties)
        counts.append(0 if value is None else metrics.count(_NODE_BE, window, properties))
        return value or 0.0

    usage, request, limit = of("usage"), of("request"), of("real-limit")
    return Supply(usage, request, limit if offered is None else offered), min(counts)


def _present(metrics: MetricQueries, offered: float | None) -> Supply:
    usage, request, limit = (
        metrics.last(_NODE_BE, _properties(allocation)) or 0.0
        for allocation in ("usage", "request", "real-limit")
    )
    return Supply(usage, request, limit if offered is None else offered)


def _properties(allocation: str) -> dict[str, str]:
    return {"be_resource": "cpu", "be_allocation": allocation}


def _batch_allocatable(node: Node) -> int:
    """Return the node's batch-cpu: -1 if it has none, and 1 for 0, so that a rate can be computed."""
    offered = node.status.allocatable.get(extension.BATCH_CPU)
    if offered is None or (value := quantity.value(offered)) < 0:
        return -1
    return value or 1


def _uses_enough(supply: Supply, thresholds: ResourceThresholdStrategy) -> bool:
    if supply.limit <= 0:
        return False
    percent = thresholds.cpu_evict_be_usage_threshold_percent
    share = (_DEFAULT_USAGE_PERCENT if percent is None else percent) / 100
    return supply.limit < _SMALL_LIMIT or supply.usage / supply.limit >= share


def _gap(supply: Supply, thresholds: ResourceThresholdStrategy) -> int:
    """Return the milli-CPU of requests whose release satisfies the rest; 0 if that is not needed."""
    lower = thresholds.cpu_evict_be_satisfaction_lower_percent or 0
    upper = thresholds.cpu_evict_be_satisfaction_upper_percent or 0
    if supply.request <= 0:
        return 0
    rate = supply.limit / supply.request
    if rate > lower / 100:
        return 0
    return int64.from_float(supply.request * max(upper / 100 - rate, 0.0))


def _batch_cpu(pod: Pod) -> int:
    return batch_resources.pod_batch_request(pod, extension.BATCH_CPU)


def _released_by(candidate: Candidate) -> Amounts:
    return {extension.BATCH_CPU: _batch_cpu(candidate.pod) * 1000}


def _less(one: Candidate, other: Candidate) -> bool:
    low, high = one.pod.spec.priority, other.pod.spec.priority
    if low is None or high is None or low == high:
        return _usage(one) > _usage(other)
    return low < high


def _usage(candidate: Candidate) -> float:
    return candidate.used / candidate.requested if candidate.requested > 0 else 0.0
