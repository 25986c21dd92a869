"""CPUAllocatableEvict: evict pods of low priority when they request more CPU than the node offers."""

from collections.abc import Sequence

from koordpy.agent.interface import PodMeta
from koordpy.agent.interface.gates import CPU_ALLOCATABLE_EVICT
from koordpy.agent.toolkit.eviction import candidates, requests
from koordpy.agent.toolkit.eviction.tasks import EvictionTask, ReleaseTarget
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.api.core import Node
from koordpy.api.resource_names import CPU
from koordpy.api.slo.threshold import ResourceThresholdStrategy

from .usage import milli_used


def task(
    metrics: MetricQueries, thresholds: ResourceThresholdStrategy, node: Node, pods: Sequence[PodMeta]
) -> EvictionTask | None:
    """Return the task; None while requests are low enough. Raises InvalidThresholdError."""
    percentages = requests.thresholds_of(
        "CPU",
        thresholds.cpu_allocatable_evict_threshold_percent,
        thresholds.cpu_allocatable_evict_lower_percent,
        thresholds.allocatable_evict_priority_threshold,
    )
    release = requests.release_by_requests(node, pods, CPU, percentages, _excess)
    if not release:
        return None
    return EvictionTask(
        CPU_ALLOCATABLE_EVICT,
        ReleaseTarget.REQUESTED,
        release,
        candidates.by_priority(
            pods,
            CPU_ALLOCATABLE_EVICT,
            percentages.highest_priority,
            CPU,
            lambda pod: milli_used(metrics, pod),
            lambda each: each.requested,
        ),
        requests.released_request(release, CPU),
    )


def _excess(requested: float, allocatable: float, lower: float) -> float:
    return requested - lower / 100 * allocatable
