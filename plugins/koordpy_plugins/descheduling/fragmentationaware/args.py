"""Arguments of FragmentationAware.

Source: Koordinator, `pkg/descheduler/apis/config/v1alpha2` (`types_fragmentationaware.go`, `defaults.go`) and
`.../validation/validation_fragmentationaware.go`.
"""

from collections.abc import Iterable

from pydantic import field_validator

from koordpy.api.config_model import ConfigModel
from koordpy.api.field_error import FieldError, duplicate, invalid
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.toolkit.pods import Namespaces, PodSelector, namespaces_errors
from koordpy.descheduling.toolkit.selector import Selector, selector_errors, written

DEFAULT_RESOURCES = ("cpu", "memory")


class UnnamedPodSelector(ConfigModel):
    """A label selector of pods; without a selector it is ignored."""

    selector: Selector | None = None


class FragmentationAwareArgs(PluginArgs):
    """Arguments of the plugin. Decoding sets the defaults."""

    paused: bool = False
    dry_run: bool = False
    node_selector: Selector | None = None
    evictable_namespaces: Namespaces | None = None
    pod_selectors: list[UnnamedPodSelector] = []
    node_fit: bool = True
    resources: list[str] = list(DEFAULT_RESOURCES)
    imbalance_threshold: float = 0.15
    """A standard deviation of fractions: nodes up to it are left alone."""
    min_improvement_threshold: float = 0.02
    """By how much an eviction must lower the standard deviation."""

    @field_validator("resources")
    @classmethod
    def _default_resources(cls, given: list[str]) -> list[str]:
        return given or list(DEFAULT_RESOURCES)

    @property
    def named_pod_selectors(self) -> list[PodSelector]:
        """The selectors in the form of `koordpy.descheduling.toolkit.pods.selected`."""
        return [PodSelector(selector=entry.selector) for entry in self.pod_selectors]

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        yield from (
            duplicate(f"resources[{index}]", name)
            for index, name in enumerate(self.resources)
            if name in self.resources[:index]
        )
        for field, value in (
            ("imbalanceThreshold", self.imbalance_threshold),
            ("minImprovementThreshold", self.min_improvement_threshold),
        ):
            if value < 0:
                yield invalid(field, value, "must be greater than or equal to 0")
        yield from selector_errors("nodeSelector", self.node_selector)
        for index, entry in enumerate(self.pod_selectors):
            shown = {"Selector": entry.selector and written(entry.selector)}
            yield from selector_errors(f"podSelectors[{index}]", entry.selector, shown)
        yield from namespaces_errors("evictableNamespaces", self.evictable_namespaces)
