"""The arguments that determine the shared state: profiles with equal values share it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from .args import LoadAwareSchedulingAggregatedArgs, LoadAwareSchedulingArgs


@dataclass(frozen=True)
class LoadSettings:
    """The estimation of pods, and for how long their estimates count."""

    names: tuple[str, ...]
    """The resources of every vector, in order."""
    scaling_factors: Mapping[str, int]
    """Percent of requests or limits."""
    allow_customize_estimation: bool
    seconds_after_scheduled: int | None
    seconds_after_initialized: int | None
    prod_usage_includes_system: bool

    @classmethod
    def of(cls, args: LoadAwareSchedulingArgs) -> Self:
        """Return the settings in a plugin's arguments."""
        return cls(
            args.vector_names,
            args.estimated_scaling_factors,
            args.allow_customize_estimation,
            args.estimated_seconds_after_pod_scheduled,
            args.estimated_seconds_after_initialized,
            args.prod_usage_include_sys,
        )


@dataclass(frozen=True)
class ThresholdSettings:
    """The thresholds of nodes without their own, in percent, and the expiration of NodeMetrics."""

    usage: Mapping[str, int]
    prod_usage: Mapping[str, int]
    aggregated: LoadAwareSchedulingAggregatedArgs | None
    expiration_seconds: int

    @classmethod
    def of(cls, args: LoadAwareSchedulingArgs) -> Self:
        """Return the settings in a plugin's arguments."""
        return cls(
            args.usage_thresholds,
            args.prod_usage_thresholds,
            args.aggregated,
            args.node_metric_expiration_seconds,
        )
