"""MemoryAllocatableEvict: evict pods of low priority when they request more memory than the node offers."""

from collections.abc import Sequence

from koordpy.agent.interface import PodMeta
from koordpy.agent.interface.gates import MEMORY_ALLOCATABLE_EVICT
from koordpy.agent.toolkit.eviction import candidates, requests
from koordpy.agent.toolkit.eviction.tasks import EvictionTask, ReleaseTarget
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.api.core import Node
from koordpy.api.resource_names import MEMORY
from koordpy.api.slo.threshold import ResourceThresholdStrategy

from .usage import counted


def task(
    metrics: MetricQueries, thresholds: ResourceThresholdStrategy, node: Node, pods: Sequence[PodMeta]
) -> EvictionTask | None:
    """Return the task; None while requests are low enough. Raises InvalidThresholdError."""
    percentages = requests.thresholds_of(
        "Memory",
        thresholds.memory_allocatable_evict_threshold_percent,
        thresholds.memory_allocatable_evict_lower_percent,
        thresholds.allocatable_evict_priority_threshold,
    )
    release = requests.release_by_requests(node, pods, MEMORY, percentages, _excess)
    if not release:
        return None
    return EvictionTask(
        MEMORY_ALLOCATABLE_EVICT,
        ReleaseTarget.REQUESTED,
        release,
        candidates.by_priority(
            pods,
            MEMORY_ALLOCATABLE_EVICT,
            percentages.highest_priority,
            MEMORY,
            lambda pod: counted(metrics, pod),
            lambda each: each.requested,
        ),
        requests.released_request(release, MEMORY),
    )


def _excess(requested: float, allocatable: float, lower: float) -> float:
    # Not the formula of CPU: it rounds otherwise.
    return (requested / allocatable - lower / 100) * allocatable
