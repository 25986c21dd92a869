"""Arguments of ScaleDownBinPack.

Source: Koordinator, `pkg/descheduler/apis/config/v1alpha2` (`types_scaledownbinpack.go`, `defaults.go`) and
`.../validation/validation_scaledownbinpack.go`.
"""

import math
from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field, ValidationInfo, field_validator

from koordpy.api.config_model import Int32
from koordpy.api.field_error import FieldError, invalid
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.toolkit.pods import Namespaces, PodSelector, namespaces_errors, pod_selectors_errors
from koordpy.descheduling.toolkit.selector import Selector, selector_errors

DEFAULT_RESOURCES = ("cpu", "memory")


class Strategy(StrEnum):
    """What is done with the ranked pods."""

    CALCULATE_ONLY = "CalculateOnly"
    """Each pod gets its rank as pod-deletion-cost."""
    EVICT_DIRECTLY = "EvictDirectly"
    """The first pods are evicted."""


class ScaleDownBinPackArgs(PluginArgs):
    """Arguments of the plugin. Decoding sets the defaults."""

    paused: bool = False
    strategy: str = Strategy.CALCULATE_ONLY.value
    max_pods_to_evict: Int32 | None = None
    node_selector: Selector | None = None
    pod_selectors: list[PodSelector] = []
    evictable_namespaces: Namespaces | None = None
    resources: list[str] = list(DEFAULT_RESOURCES)
    """Which resources have a weight of 1 unless `resource_weights` says otherwise."""
    resource_weights: dict[str, float] = Field(default={}, validate_default=True)
    """Weight by resource: what counts is in here, also what is not in `resources`."""

    @field_validator("strategy")
    @classmethod
    def _default_strategy(cls, given: str) -> str:
        return given or Strategy.CALCULATE_ONLY.value

    @field_validator("resources")
    @classmethod
    def _default_resources(cls, given: list[str]) -> list[str]:
        return given or list(DEFAULT_RESOURCES)

    @field_validator("resource_weights")
    @classmethod
    def _fill_in_weights(cls, given: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        return dict.fromkeys(info.data.get("resources", ()), 1.0) | given

    @property
    def evicts(self) -> bool:
        """Whether pods are evicted and not just ranked."""
        return self.strategy == Strategy.EVICT_DIRECTLY

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        if self.strategy not in tuple(Strategy):
            yield invalid("strategy", self.strategy, "strategy must be CalculateOnly or EvictDirectly")
        if self.evicts and (self.max_pods_to_evict is None or self.max_pods_to_evict <= 0):
            yield invalid(
                "maxPodsToEvict",
                self.max_pods_to_evict,
                "maxPodsToEvict must be positive when strategy is EvictDirectly",
            )
        yield from selector_errors("nodeSelector", self.node_selector)
        yield from pod_selectors_errors("podSelectors", self.pod_selectors)
        yield from namespaces_errors("evictableNamespaces", self.evictable_namespaces)
        for name, weight in self.resource_weights.items():
            if weight <= 0 or not math.isfinite(weight):
                yield invalid(f"resourceWeights[{name}]", weight, "weights must be positive finite floats")
