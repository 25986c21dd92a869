"""The arguments of NodeNUMAResource, with Koordinator's defaults and validation.

Source: Koordinator, `pkg/scheduler/apis/config` (`v1/types.go`, `v1/defaults.go`, `validation`) and
`pkg/scheduler/plugins/nodenumaresource/plugin.go` (strategies that the plugin does not support).
"""

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs
from koordpy.scheduling.toolkit.scoring_strategy import ScoringStrategy, least_allocated

from .cpus import policies

_BALANCED: Final = "BalancedAllocation"


class NodeNUMAResourceArgs(PluginArgs):
    """How CPUs are bound by default, and how nodes and their NUMA nodes are scored.

    `numa_scoring_strategy` gives the type of the NUMA scores alone: their resources and weights are those of
    `scoring_strategy`, as in Koordinator.
    """

    default_cpu_bind_policy: str = Field(default=policies.FULL_PCPUS, alias="defaultCPUBindPolicy")
    scoring_strategy: ScoringStrategy = least_allocated(("cpu", "memory"))
    numa_scoring_strategy: ScoringStrategy = least_allocated(("cpu", "memory"))

    @property
    def numa_allocate_strategy(self) -> str:
        """How NUMA nodes are chosen where the node's label does not say."""
        if self.numa_scoring_strategy.type == policies.MOST_ALLOCATED:
            return policies.MOST_ALLOCATED
        return policies.LEAST_ALLOCATED

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        if self.default_cpu_bind_policy not in ("", policies.FULL_PCPUS, policies.SPREAD_BY_PCPUS):
            yield invalid(
                "defaultCPUBindPolicy",
                self.default_cpu_bind_policy,
                "must specified CPU bind policy FullPCPUs or SpreadByPCPUs",
            )
        for strategy, field, what in (
            (self.scoring_strategy, "scoringStrategy", "scoring strategy"),
            (self.numa_scoring_strategy, "numaScoringStrategy", "numa scoring strategy"),
        ):
            yield from strategy.problems(field, what)
            if strategy.type == _BALANCED:
                yield FieldError(f"{field}.type", f"{what} {_BALANCED} is not supported")
