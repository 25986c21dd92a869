"""The arguments of the profile controller, which koord-manager takes as `--colocation-profile-*` flags."""

from pydantic import Field

from koordpy.api.config_model import Seconds
from koordpy.api.plugin import PluginArgs


class ColocationProfileArgs(PluginArgs):
    """The interval of reconciliations and the rate of writes. Times are seconds."""

    reconcile_by_default: bool = False
    """Whether profiles without the label `config.koordinator.sh/controller-managed` are re-applied too."""
    reconcile_interval: Seconds = Field(default=30.0, gt=0)
    force_update_pod_duration: Seconds = Field(default=300.0, ge=0)
    """How long a pod is not patched again after a profile was applied to it."""
    expire_pod_cache_duration: Seconds = Field(default=600.0, gt=0)
    """How often expired records of patched pods are removed."""
    update_pod_qps: float = Field(default=10.0, ge=0, alias="updatePodQPS")
    update_pod_qps_burst: int = Field(default=100, ge=0, alias="updatePodQPSBurst")
