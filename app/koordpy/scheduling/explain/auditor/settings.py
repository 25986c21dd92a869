"""The settings of the workload auditor, with Koordinator's defaults."""

from collections.abc import Sequence

from pydantic import Field

from koordpy.api.config_model import ConfigModel, Seconds


class AuditorSettings(ConfigModel):
    """Koordinator's `--enable-workload-auditor` and `--workload-auditor-*`."""

    enabled: bool = False
    metric_labels: str = ""
    """`name=podLabelKey` pairs, separated by commas: labels of the metrics, with the pods' labels that they
    are taken from. Anything else is ignored."""
    victim_reschedule_duration: Seconds = Field(default=10.0, ge=0)
    victim_deletion_duration: Seconds = Field(default=30.0, ge=0)
    victim_deleting_retries: int = Field(default=3, ge=0)
    scheduling_event_interval: Seconds = Field(default=300.0, ge=0)

    @property
    def label_pairs(self) -> Sequence[tuple[str, str]]:
        """Names of metric labels with labels of pods."""
        pairs = (pair.partition("=") for pair in self.metric_labels.split(","))
        stripped = ((name.strip(), key.strip()) for name, _, key in pairs)
        return [(name, key) for name, key in stripped if name and key]
