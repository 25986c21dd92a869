"""BEMemoryEvict and MemoryEvict: evict pods of low priority when the node uses too much memory."""

from collections.abc import Sequence
from typing import Final

from koordpy.agent.interface import PodMeta
from koordpy.agent.interface.gates import BE_MEMORY_EVICT, MEMORY_EVICT
from koordpy.agent.toolkit.eviction import candidates
from koordpy.agent.toolkit.eviction.tasks import Amounts, Candidate, EvictionTask, ReleaseTarget
from koordpy.agent.toolkit.eviction.thresholds import priority_threshold, used_percentages
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.api import quantity
from koordpy.api.core import Node, Pod
from koordpy.api.resource_names import MEMORY
from koordpy.api.slo.threshold import ResourceThresholdStrategy
from koordpy.lib import int64

USAGE_FACTOR_BY_PRIORITY: Final = 1000
"""Koordinator counts a thousand times the memory that a pod uses where it sorts pods by priority.

So the first of them almost always releases enough. It must be so here too, or more pods would be evicted.
"""


def best_effort_task(
    metrics: MetricQueries, thresholds: ResourceThresholdStrategy, node: Node, pods: Sequence[PodMeta]
) -> EvictionTask | None:
    """Return the task of BEMemoryEvict; None while usage is low enough. Raises InvalidThresholdError."""
    release = _release(metrics, thresholds, node)
    if release is None:
        return None

    def candidate(pod: Pod) -> Candidate:
        last = _last(metrics, pod)
        return Candidate(pod, 0 if last is None else int64.from_float(last))

    return EvictionTask(
        BE_MEMORY_EVICT,
        ReleaseTarget.USED,
        release,
        candidates.best_effort(pods, BE_MEMORY_EVICT, candidate, _less),
        _released_by,
    )


def priority_task(
    metrics: MetricQueries, thresholds: ResourceThresholdStrategy, node: Node, pods: Sequence[PodMeta]
) -> EvictionTask | None:
    """Return the task of MemoryEvict; None while usage is low enough. Raises InvalidThresholdError."""
    _percentages(thresholds)
    highest = priority_threshold(thresholds.evict_enabled_priority_threshold)
    release = _release(metrics, thresholds, node)
    if release is None:
        return None
    return EvictionTask(
        MEMORY_EVICT,
        ReleaseTarget.USED,
        release,
        candidates.by_priority(
            pods, MEMORY_EVICT, highest, MEMORY, lambda pod: counted(metrics, pod), lambda each: each.used
        ),
        _released_by,
    )


def counted(metrics: MetricQueries, pod: Pod) -> int | None:
    """Return the memory that a pod counts for where pods are sorted by priority; None if not measured."""
    last = _last(metrics, pod)
    return None if last is None else int64.from_float(last * USAGE_FACTOR_BY_PRIORITY)


def _release(metrics: MetricQueries, thresholds: ResourceThresholdStrategy, node: Node) -> Amounts | None:
    threshold, lower = _percentages(thresholds)
    used = metrics.last("node_memory_usage")
    if used is None:
        return None
    capacity = quantity.value(node.status.capacity.get(MEMORY, 0))
    percent = int64.quotient(int64.wrap(int64.from_float(used) * 100), capacity)
    if percent < threshold:
        return None
    return {MEMORY: int64.quotient(int64.wrap(capacity * (percent - lower)), 100) * 1000}


def _percentages(thresholds: ResourceThresholdStrategy) -> tuple[int, int]:
    return used_percentages(
        "MemoryEvictThresholdPercent",
        thresholds.memory_evict_threshold_percent,
        thresholds.memory_evict_lower_percent,
    )


def _last(metrics: MetricQueries, pod: Pod) -> float | None:
    return metrics.last("pod_memory_usage", {"pod_uid": pod.metadata.uid})


def _released_by(candidate: Candidate) -> Amounts:
    return {MEMORY: candidate.used * 1000}


def _less(one: Candidate, other: Candidate) -> bool:
    low, high = one.pod.spec.priority, other.pod.spec.priority
    if low is not None and high is not None and low != high:
        return low < high
    if one.used and other.used:
        return one.used > other.used
    if not one.used and not other.used:
        return one.pod.metadata.name > other.pod.metadata.name
    return not other.used
