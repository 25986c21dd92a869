"""How a node's unused resources are measured and offered to batch and mid pods.

Source: Koordinator, `apis/configuration/slo_controller_config.go` (`ColocationStrategy`) and
`pkg/util/sloconfig/colocation_config.go`.
"""

from typing import Annotated, Any, Final

import msgspec

from .rules import AtLeast, AtMost, GreaterThan, Int64, Percent, WireDuration
from .strategy import Strategy


class AggregatePolicy(Strategy, frozen=True):
    """The windows over which usage is aggregated."""

    durations: list[WireDuration] = []


class ColocationStrategy(Strategy, frozen=True):
    """Thresholds are percentages of the node's capacity; those of reclaiming may exceed 100."""

    enable: bool | None = None
    metric_aggregate_duration_seconds: Annotated[Int64, AtLeast(1)] | None = None
    metric_report_interval_seconds: Annotated[Int64, AtLeast(1)] | None = None
    metric_aggregate_policy: AggregatePolicy | None = None
    metric_memory_collect_policy: str | None = None
    cpu_reclaim_threshold_percent: Annotated[Int64, AtLeast(0)] | None = None
    cpu_calculate_policy: str | None = None
    memory_reclaim_threshold_percent: Annotated[Int64, AtLeast(0)] | None = None
    memory_calculate_policy: str | None = None
    degrade_time_minutes: Annotated[Int64, AtLeast(1)] | None = None
    update_time_threshold_seconds: Annotated[Int64, AtLeast(1)] | None = None
    resource_diff_threshold: Annotated[float, GreaterThan(0), AtMost(1)] | None = None
    mid_reclaim_mode: str | None = None
    mid_cpu_threshold_percent: Percent | None = msgspec.field(default=None, name="midCPUThresholdPercent")
    mid_memory_threshold_percent: Percent | None = None
    mid_unallocated_percent: Percent | None = None
    mid_static_cpu_reserved_percent: Percent | None = msgspec.field(
        default=None, name="midStaticCPUReservedPercent"
    )
    mid_static_memory_reserved_percent: Percent | None = None
    batch_cpu_threshold_percent: Annotated[Int64, AtLeast(0)] | None = msgspec.field(
        default=None, name="batchCPUThresholdPercent"
    )
    batch_memory_threshold_percent: Annotated[Int64, AtLeast(0)] | None = None
    extensions: dict[str, Any] = {}


DEFAULT: Final = ColocationStrategy(
    enable=False,
    metric_aggregate_duration_seconds=300,
    metric_report_interval_seconds=60,
    metric_aggregate_policy=AggregatePolicy(durations=["5m0s", "10m0s", "30m0s"]),
    metric_memory_collect_policy="usageWithoutPageCache",
    cpu_reclaim_threshold_percent=60,
    cpu_calculate_policy="usage",
    memory_reclaim_threshold_percent=65,
    memory_calculate_policy="usage",
    degrade_time_minutes=15,
    update_time_threshold_seconds=300,
    resource_diff_threshold=0.1,
    mid_cpu_threshold_percent=100,
    mid_memory_threshold_percent=100,
    mid_unallocated_percent=0,
    mid_static_cpu_reserved_percent=0,
    mid_static_memory_reserved_percent=0,
)
