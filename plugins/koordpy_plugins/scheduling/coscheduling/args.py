"""The arguments of Coscheduling, with Koordinator's defaults and validation."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from koordpy.api.config_model import NoEffect, Seconds
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs


class CoschedulingArgs(PluginArgs):
    """How long a gang waits for its pods, and other settings. `skip_check_schedule_cycle` is deprecated.

    Three are koordpy's own. `ignore_network_topology_spec`: without `aware_network_topology`, gangs that
    want a place in the network are scheduled as if they did not; in Koordinator all but their first pod fail.
    `preemption_joint_fit`: a gang evicts pods only if all its members fit beside each other then.
    `preemption_considers_pdbs`: it prefers victims whose eviction violates no PodDisruptionBudget.
    """

    default_timeout: Seconds = 600.0
    controller_workers: int = 1
    skip_check_schedule_cycle: Annotated[bool, NoEffect("attempts have no cycles to be checked")] = False
    enable_preemption: bool = False
    aware_network_topology: bool = False
    ignore_network_topology_spec: bool = False
    default_match_policy: str = "once-satisfied"
    preemption_joint_fit: bool = False
    preemption_considers_pdbs: bool = Field(default=False, alias="preemptionConsidersPDBs")

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        if self.default_timeout < 0:
            yield invalid(
                "defaultTimeout",
                f"{self.default_timeout:g}s",
                "coeSchedulingArgs DefaultTimeoutSeconds invalid",
            )
        if self.aware_network_topology and self.ignore_network_topology_spec:
            yield FieldError(
                "ignoreNetworkTopologySpec",
                "expected false where awareNetworkTopology is true",
            )
        if self.controller_workers < 1:
            yield invalid(
                "controllerWorkers", self.controller_workers, "coeSchedulingArgs ControllerWorkers invalid"
            )
