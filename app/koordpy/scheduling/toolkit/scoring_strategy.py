"""How the arguments of plugins say which resources are scored, by utilization, and how.

Source: Koordinator, `pkg/scheduler/apis/config` (`v1/types.go`, `validation`).
"""

from collections.abc import Iterable, Sequence

from pydantic import Field

from koordpy.api.config_model import ConfigModel
from koordpy.api.field_error import FieldError, invalid

SCORING_STRATEGIES = ("MostAllocated", "BalancedAllocation", "LeastAllocated")


class ResourceSpec(ConfigModel):
    """A scored resource and its weight."""

    name: str
    weight: int = 0


class ScoringStrategy(ConfigModel):
    """How nodes, NUMA nodes or devices are scored by utilization."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = Field(default=(), strict=False)

    def problems(self, path: str, what: str) -> Iterable[FieldError]:
        """Return the errors in a strategy; `what` is its name in Koordinator's messages."""
        for place, spec in enumerate(self.resources):
            if not 0 < spec.weight <= 100:
                yield invalid(
                    f"{path}.resources[{place}].weight",
                    spec.weight,
                    f"resource weight of {spec.name} not in valid range (0, 100]",
                )
        if self.type not in SCORING_STRATEGIES:
            yield FieldError(
                f"{path}.type",
                f"{what} {self.type} is not supported, expected one of {', '.join(SCORING_STRATEGIES)}",
            )


def least_allocated(names: Sequence[str]) -> ScoringStrategy:
    """Return the strategy that prefers what is used least, with weight 1 for each resource."""
    return ScoringStrategy(
        type="LeastAllocated", resources=tuple(ResourceSpec(name=name, weight=1) for name in names)
    )
