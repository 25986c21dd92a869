"""The arguments of SchedulingHint, with Koordinator's defaults and validation."""

from collections.abc import Iterable

from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs


class SchedulingHintArgs(PluginArgs):
    """The maximum number of preferred nodes that are tried for a pod."""

    max_hint_nodes: int = 100

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        if self.max_hint_nodes <= 0:
            yield invalid("maxHintNodes", self.max_hint_nodes, "must be a positive value")
