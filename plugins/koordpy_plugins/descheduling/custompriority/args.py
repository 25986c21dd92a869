"""Arguments of CustomPriority.

Only what the plugin itself requires of the levels is checked, as in Koordinator: an unknown mode behaves as
BestEffort, and the thresholds of a level have no effect. Source: Koordinator,
`pkg/descheduler/apis/config/v1alpha2` (`types_custom_priority.go`, `defaults.go`) and
`pkg/descheduler/framework/plugins/custompriority` (`validateCustomPriorityArgs`).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import field_validator

from koordpy.api.config_model import ConfigModel
from koordpy.api.config_writing import Written
from koordpy.api.field_error import FieldError
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.toolkit.pods import Namespaces, PodSelector
from koordpy.descheduling.toolkit.pods import selected as selected_pods
from koordpy.descheduling.toolkit.selector import Selector


class Mode(StrEnum):
    """How pods leave the nodes of a level."""

    BEST_EFFORT = "BestEffort"
    """Every pod for itself."""
    DRAIN_NODE = "DrainNode"
    """Only if all pods of the node find a place."""


class Level(ConfigModel):
    """A tier of nodes; a node belongs to the first level that selects it."""

    name: str = ""
    node_selector: Selector | None = None
    keep_threshold: Annotated[dict[str, float] | None, Written(empty=True)] = None
    """Percent by resource; no effect, in Koordinator neither."""
    reject_threshold: Annotated[dict[str, float] | None, Written(empty=True)] = None
    """Percent by resource; no effect, in Koordinator neither."""


class CustomPriorityArgs(PluginArgs):
    """Arguments of the plugin. Decoding sets the defaults."""

    paused: bool = False
    dry_run: bool = False
    evictable_namespaces: Namespaces | None = None
    node_selector: Selector | None = None
    pod_selectors: list[PodSelector] = []
    node_fit: bool = True
    eviction_order: list[Level] = []
    """The levels, the most expensive first."""
    mode: str = Mode.BEST_EFFORT.value
    auto_cordon: bool = False

    @field_validator("mode")
    @classmethod
    def _default_mode(cls, given: str) -> str:
        return given or Mode.BEST_EFFORT.value

    @property
    def drains_nodes(self) -> bool:
        """Whether a node is left by all of its pods or by none."""
        return self.mode == Mode.DRAIN_NODE

    def problems(self) -> Iterable[FieldError]:
        """Return the first error, as Koordinator's plugin does."""
        return list(_problems(self))[:1]


def _problems(args: CustomPriorityArgs) -> Iterable[FieldError]:
    if len(args.eviction_order) < 2:
        yield FieldError("", "CustomPriority requires at least 2 resource priority levels")
    seen: set[str] = set()
    for level in args.eviction_order:
        if not level.name:
            yield FieldError("", "priority name cannot be empty")
        if level.name in seen:
            yield FieldError("", f"duplicate priority name: {level.name}")
        seen.add(level.name)
        if level.node_selector is None:
            yield FieldError("", f"priority {level.name} must have a nodeSelector")
    try:
        selected_pods(args.pod_selectors)
    except ValueError as error:
        yield FieldError("", f"error initializing pod selector filter: {error}")
