"""Arguments of HighNodeUtilization, as in the Kubernetes descheduler."""

from collections.abc import Iterable
from typing import Final

from koordpy.api.config_model import Int64
from koordpy.api.field_error import FieldError
from koordpy.descheduling.toolkit.node_utilization import thresholds_problem
from koordpy.descheduling.toolkit.upstream_args import (
    Percentages,
    Strings,
    UpstreamArgs,
    UpstreamNamespaces,
    problem,
)

ONLY_THRESHOLDING_RESOURCES: Final = "OnlyThresholdingResources"


class HighNodeUtilizationArgs(UpstreamArgs):
    """Arguments of the plugin."""

    thresholds: Percentages = {}
    """A node whose requests are at or below all of them is underutilized."""
    number_of_nodes: Int64 = 0
    """Nothing is evicted with at most as many underutilized nodes."""
    eviction_modes: Strings = []
    evictable_namespaces: UpstreamNamespaces | None = None
    """Only namespaces to exclude; their pods count as usage."""

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does: only the first error."""
        if self.evictable_namespaces is not None and self.evictable_namespaces.include:
            yield problem("only Exclude namespaces can be set, inclusion is not supported")
        elif text := thresholds_problem(self.thresholds):
            yield problem(text)
        else:
            unknown = (mode for mode in self.eviction_modes if mode != ONLY_THRESHOLDING_RESOURCES)
            if (mode := next(unknown, None)) is not None:
                yield problem(f"invalid eviction mode {mode}")
