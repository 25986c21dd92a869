"""The arguments of LoadAwareScheduling, with Koordinator's names, defaults and validation."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, model_validator

from koordpy.api.config_model import ConfigModel, Seconds
from koordpy.api.field_error import FieldError, invalid, not_found, not_supported
from koordpy.api.plugin import PluginArgs

AGGREGATION_TYPES = ("avg", "p50", "p90", "p95", "p99")

_DEFAULT_WEIGHTS = {"cpu": 1, "memory": 1}
_DEFAULT_THRESHOLDS = {"cpu": 65, "memory": 95}
_DEFAULT_FACTORS = {"cpu": 85, "memory": 70}


class LoadAwareSchedulingAggregatedArgs(ConfigModel):
    """The percentile of usage that replaces the latest usage; duration 0 means the longest reported."""

    usage_thresholds: dict[str, int] = {}
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Seconds = 0.0
    score_aggregation_type: str = ""
    score_aggregated_duration: Seconds = 0.0


class LoadAwareSchedulingArgs(PluginArgs):
    """Thresholds are percent of allocatable, scaling factors percent of requests or limits."""

    filter_expired_node_metrics: bool = True
    node_metric_expiration_seconds: int = 180
    enable_schedule_when_node_metrics_expired: bool = False
    resource_weights: dict[str, int] = {}
    dominant_resource_weight: int = 0
    usage_thresholds: dict[str, int] = {}
    prod_usage_thresholds: dict[str, int] = {}
    prod_usage_include_sys: bool = False
    score_according_prod_usage: bool = False
    estimator: str = ""
    estimated_scaling_factors: dict[str, int] = {}
    estimated_seconds_after_pod_scheduled: int | None = None
    estimated_seconds_after_initialized: int | None = None
    allow_customize_estimation: bool = False
    aggregated: LoadAwareSchedulingAggregatedArgs | None = None
    supported_resources: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="before")
    @classmethod
    def _default(cls, given: Any) -> Any:
        """Set the defaults that depend on other fields, as Koordinator's defaulter does."""
        if not isinstance(given, dict):
            return given
        fields = dict(given)
        if not fields.get("resourceWeights") and not fields.get("dominantResourceWeight"):
            fields["resourceWeights"] = _DEFAULT_WEIGHTS
        if not fields.get("usageThresholds"):
            fields["usageThresholds"] = _DEFAULT_THRESHOLDS
        factors = fields.get("estimatedScalingFactors") or {}
        if isinstance(factors, dict):
            fields["estimatedScalingFactors"] = {**_DEFAULT_FACTORS, **factors}
        return fields

    @property
    def vector_names(self) -> tuple[str, ...]:
        """The evaluated resources, in order."""
        names = {"cpu", "memory", *self.supported_resources}
        for mapping in (
            self.usage_thresholds,
            self.prod_usage_thresholds,
            self.resource_weights,
            self.estimated_scaling_factors,
            self.aggregated.usage_thresholds if self.aggregated else {},
        ):
            names.update(mapping)
        return tuple(sorted(names))

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does: the first invalid entry of each map, in order of names."""
        if self.node_metric_expiration_seconds <= 0:
            yield invalid(
                "nodeMetricExpiredSeconds", self.node_metric_expiration_seconds,
                "nodeMetricExpiredSeconds should be a positive value",
            )  # fmt: skip
        yield from self._weight_problems()
        yield from _threshold_problems("usageThresholds", self.usage_thresholds)
        for name, factor in sorted(self.estimated_scaling_factors.items()):
            text = _out_of_range(f"estimated resource ScalingFactor of {name}", factor, lowest=1)
            if text:
                yield invalid("estimatedScalingFactors", factor, text)
                break
        for name in sorted(self.resource_weights):
            if name not in self.estimated_scaling_factors:
                yield not_found("estimatedScalingFactors", name)
                break
        if self.aggregated is not None:
            yield from self._aggregated_problems(self.aggregated)

    def _weight_problems(self) -> Iterable[FieldError]:
        for name, weight in sorted(self.resource_weights.items()):
            text = _out_of_range(f"resource Weight of {name}", weight, lowest=1)
            if text:
                yield invalid("resourceWeights", weight, text)
                break
        weight = self.dominant_resource_weight
        if not 0 <= weight <= 100:
            should = "not be a negative value" if weight < 0 else "be less than 100"
            yield invalid("dominantResourceWeight", weight, f"dominantResourceWeight should {should}")

    def _aggregated_problems(self, aggregated: LoadAwareSchedulingAggregatedArgs) -> Iterable[FieldError]:
        yield from _threshold_problems("aggregated.usageThresholds", aggregated.usage_thresholds)
        for field, kind in (
            ("usageAggregationType", aggregated.usage_aggregation_type),
            ("scoreAggregationType", aggregated.score_aggregation_type),
        ):
            if kind and kind not in AGGREGATION_TYPES:
                yield not_supported(f"aggregated.{field}", kind, AGGREGATION_TYPES)
        for field, seconds in (
            ("usageAggregatedDuration", aggregated.usage_aggregated_duration),
            ("scoreAggregatedDuration", aggregated.score_aggregated_duration),
        ):
            if seconds < 0:
                yield invalid(f"aggregated.{field}", f"{seconds:g}s", "duration must be >= 0")


def _threshold_problems(path: str, thresholds: Mapping[str, int]) -> Iterable[FieldError]:
    for name, threshold in sorted(thresholds.items()):
        text = _out_of_range(f"resource Threshold of {name}", threshold, lowest=0)
        if text:
            yield invalid(path, threshold, text)
            break


def _out_of_range(what: str, value: int, *, lowest: int) -> str:
    if value < lowest:
        return f"{what} should be a positive value, got {value}"
    return f"{what} should be less than 100, got {value}" if value > 100 else ""
