"""Settings of what is observed, shown and written about scheduling attempts."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import Field

from koordpy.api.config_model import ConfigModel, Seconds

from .auditor.settings import AuditorSettings

if TYPE_CHECKING:
    from koordpy.scheduling.interface.debug_flags import DebugFlags


class MonitorSettings(ConfigModel):
    """Koordinator's `--scheduler-monitor-period`, `--scheduling-timeout` and so on, in seconds."""

    period: Seconds = Field(default=10.0, gt=0)
    scheduling_timeout: Seconds = Field(default=30.0, gt=0)
    drop_unhandled_timeout: Seconds = Field(default=5.0, gt=0)


class ExplanationSettings(ConfigModel):
    """Whether and how ScheduleExplanations are written."""

    enabled: bool = False
    after: Seconds = Field(default=60.0, ge=0)
    """Seconds that a pod has been unschedulable before it is explained."""
    refresh: Seconds = Field(default=60.0, gt=0)
    """The shortest time in seconds after which an explanation is computed and written again."""
    writes_per_second: float = Field(default=2.0, gt=0)
    nodes: int = Field(default=100, ge=1)
    """The number of rejected nodes that are listed per reason; the message counts all of them."""


class DebugLogSettings(ConfigModel):
    """Koordinator's `--debug-scores` and so on: what is logged until `/debug/flags` changes it."""

    scores: int = 0
    """How many of the best nodes are shown."""
    filters: bool = False
    diagnosis: bool = False
    diagnosis_blocking: bool = False
    diagnosis_queue_size: int = Field(default=1000, ge=1)
    diagnosis_worker_count: int = Field(default=10, ge=1)

    def flags(self, set_verbosity: Callable[[int], None] = lambda _: None) -> "DebugFlags":
        """Return the switches as they are at the start."""
        from koordpy.scheduling.interface.debug_flags import DebugFlags  # not for processes that only read

        return DebugFlags(
            self.scores, self.filters, self.diagnosis, self.diagnosis_blocking, set_verbosity=set_verbosity
        )


class ObserverSettings(ConfigModel):
    """What is observed, shown and written about attempts."""

    debug_log: DebugLogSettings = DebugLogSettings()
    monitor: MonitorSettings = MonitorSettings()
    workload_auditor: AuditorSettings = AuditorSettings()
    schedule_explanations: ExplanationSettings = ExplanationSettings()
