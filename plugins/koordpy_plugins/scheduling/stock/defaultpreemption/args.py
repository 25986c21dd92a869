"""The arguments of DefaultPreemption."""

from collections.abc import Iterable

from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs


class DefaultPreemptionArgs(PluginArgs):
    """The number of candidates: a percentage of the nodes that may help, and a minimum."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def problems(self) -> Iterable[FieldError]:
        """Validate as kube-scheduler does."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            yield invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]")
        if absolute < 0:
            yield invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)")
        if percentage == 0 and absolute == 0:
            yield invalid(
                "minCandidateNodesPercentage",
                percentage,
                "cannot be zero at the same time as minCandidateNodesAbsolute",
            )
            yield invalid(
                "minCandidateNodesAbsolute",
                absolute,
                "cannot be zero at the same time as minCandidateNodesPercentage",
            )
