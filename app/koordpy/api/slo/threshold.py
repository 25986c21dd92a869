"""Limits of best-effort pods' usage of a node: CPU suppression, and eviction by CPU and memory.

Source: Koordinator, `apis/slo/v1alpha1/nodeslo_types.go` (`ResourceThresholdStrategy`).
"""

from typing import Annotated, Final

import msgspec

from .rules import Above, AtLeast, AtMost, Below, GreaterThan, Int32, Int64, Percent
from .strategy import Strategy

CPUSET: Final = "cpuset"
CFS_QUOTA: Final = "cfsQuota"
"""Values of `cpu_suppress_policy`."""


class ResourceThresholdStrategy(Strategy, frozen=True):
    """Percentages are of the node's capacity; `*_lower_percent` is where eviction ends."""

    enable: bool | None = None
    cpu_suppress_threshold_percent: Percent | None = None
    cpu_suppress_min_percent: Percent | None = None
    cpu_suppress_policy: str = ""
    memory_evict_threshold_percent: Annotated[Percent, Above("memoryEvictLowerPercent")] | None = None
    memory_evict_lower_percent: Annotated[Percent, Below("memoryEvictThresholdPercent")] | None = None
    memory_allocatable_evict_threshold_percent: (
        Annotated[Int64, AtLeast(0), Above("memoryAllocatableEvictLowerPercent")] | None
    ) = None
    memory_allocatable_evict_lower_percent: (
        Annotated[Int64, AtLeast(0), Below("memoryAllocatableEvictThresholdPercent")] | None
    ) = None
    cpu_evict_be_satisfaction_upper_percent: (
        Annotated[Percent, Above("cpuEvictBESatisfactionLowerPercent")] | None
    ) = msgspec.field(default=None, name="cpuEvictBESatisfactionUpperPercent")
    cpu_evict_be_satisfaction_lower_percent: (
        Annotated[Percent, Below("cpuEvictBESatisfactionUpperPercent")] | None
    ) = msgspec.field(default=None, name="cpuEvictBESatisfactionLowerPercent")
    cpu_evict_be_usage_threshold_percent: Percent | None = msgspec.field(
        default=None, name="cpuEvictBEUsageThresholdPercent"
    )
    cpu_evict_time_window_seconds: Annotated[Int64, GreaterThan(0)] | None = None
    cpu_evict_threshold_percent: Annotated[Percent, Above("cpuEvictLowerPercent")] | None = None
    cpu_evict_lower_percent: Annotated[Percent, Below("cpuEvictThresholdPercent")] | None = None
    cpu_allocatable_evict_threshold_percent: (
        Annotated[Int64, AtLeast(0), Above("cpuAllocatableEvictLowerPercent")] | None
    ) = None
    cpu_allocatable_evict_lower_percent: (
        Annotated[Int64, AtLeast(0), Below("cpuAllocatableEvictThresholdPercent")] | None
    ) = None
    cpu_evict_policy: str = ""
    evict_enabled_priority_threshold: Int32 | None = None
    allocatable_evict_priority_threshold: Annotated[Int32, AtLeast(0), AtMost(7999)] | None = None


DEFAULT: Final = ResourceThresholdStrategy(
    enable=False,
    cpu_suppress_threshold_percent=65,
    cpu_suppress_policy=CPUSET,
    memory_evict_threshold_percent=70,
    cpu_evict_policy="evictByRealLimit",
)
