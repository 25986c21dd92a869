"""The arguments of Coscheduling, with Koordinator's defaults and validation."""

from collections.abc import Iterable

from koordpy.api.config_model import Seconds
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs


class CoschedulingArgs(PluginArgs):
    """How long a gang waits for its pods, and other settings. `skip_check_schedule_cycle` is deprecated."""

    default_timeout: Seconds = 600.0
    controller_workers: int = 1
    skip_check_schedule_cycle: bool = False
    enable_preemption: bool = False
    aware_network_topology: bool = False
    default_match_policy: str = "once-satisfied"

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        if self.default_timeout < 0:
            yield invalid(
                "defaultTimeout",
                f"{self.default_timeout:g}s",
                "coeSchedulingArgs DefaultTimeoutSeconds invalid",
            )
        if self.controller_workers < 1:
            yield invalid(
                "controllerWorkers", self.controller_workers, "coeSchedulingArgs ControllerWorkers invalid"
            )
