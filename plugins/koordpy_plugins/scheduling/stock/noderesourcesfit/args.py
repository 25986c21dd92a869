"""The arguments of NodeResourcesFit."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from koordpy.api.config_model import ConfigModel
from koordpy.api.field_error import FieldError, invalid, required
from koordpy.api.plugin import PluginArgs


class ResourceSpec(ConfigModel):
    """A scored resource and its weight. Weight 0 means 1."""

    name: str
    weight: int = 1


class UtilizationShapePoint(ConfigModel):
    """A point of the shape: utilization in percent, score from 0 to 10."""

    utilization: int
    score: int


class RequestedToCapacityRatioParam(ConfigModel):
    """A piecewise linear function from utilization to score."""

    shape: tuple[UtilizationShapePoint, ...] = Field(default=(), strict=False)


class ScoringStrategy(ConfigModel):
    """The scoring strategy."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = Field(default=(), strict=False)
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    @property
    def weights(self) -> list[tuple[str, int]]:
        """Resource names with their weights, after kube-scheduler's defaults."""
        if not self.resources:
            return [("cpu", 1), ("memory", 1)]
        return [(spec.name, spec.weight or 1) for spec in self.resources]


class NodeResourcesFitArgs(PluginArgs):
    """The resources that Filter ignores, and the scoring strategy."""

    ignored_resources: tuple[str, ...] = Field(default=(), strict=False)
    ignored_resource_groups: tuple[str, ...] = Field(default=(), strict=False)
    scoring_strategy: ScoringStrategy = ScoringStrategy()

    def problems(self) -> Iterable[FieldError]:
        """Validate as kube-scheduler does."""
        for index, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield invalid(
                    f"ignoredResourceGroups[{index}]", group, "resource group name can't contain '/'"
                )
        strategy = self.scoring_strategy
        for index, spec in enumerate(strategy.resources):
            if not 0 <= spec.weight <= 100:
                yield invalid(
                    f"scoringStrategy.resources[{index}].weight",
                    spec.weight,
                    f"resource weight of {spec.name} not in valid range (0, 100]",
                )
        if strategy.type == "RequestedToCapacityRatio":
            yield from self._shape_problems()

    def _shape_problems(self) -> Iterable[FieldError]:
        path = "scoringStrategy.requestedToCapacityRatio.shape"
        ratio = self.scoring_strategy.requested_to_capacity_ratio
        if ratio is None or not ratio.shape:
            yield required(path, "at least one point must be specified")
            return
        for index, point in enumerate(ratio.shape):
            if not 0 <= point.utilization <= 100:
                yield invalid(
                    f"{path}[{index}].utilization", point.utilization, "not in valid range [0, 100]"
                )
            if not 0 <= point.score <= 10:
                yield invalid(f"{path}[{index}].score", point.score, "not in valid range [0, 10]")
            if index and ratio.shape[index - 1].utilization >= point.utilization:
                yield invalid(
                    f"{path}[{index}].utilization",
                    point.utilization,
                    "utilization values must be sorted in increasing order",
                )
