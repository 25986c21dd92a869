"""The arguments of Koordinator plugins that koordpy does not have, with Koordinator's defaults and
validation.

A file written for a koord-scheduler configures them too. If such plugins are left out, their arguments are
still read: what Koordinator rejects is rejected, so that a file that loads here is valid. Source:
Koordinator, `pkg/scheduler/apis/config` (`v1/types.go`, `v1/defaults.go`, `validation`).
"""

from collections.abc import Iterable, Mapping

from pydantic import Field

from koordpy.api import extension
from koordpy.api.config_model import ConfigModel
from koordpy.api.field_error import FieldError
from koordpy.api.plugin import PluginArgs

from ..toolkit.scoring_strategy import ScoringStrategy, least_allocated

_DEVICES = (extension.GPU_MEMORY_RATIO, extension.GPU_MEMORY, "koordinator.sh/rdma", "koordinator.sh/fpga")


class GPUSharedResourceTemplatesConfig(ConfigModel):
    """Where the templates of shared GPUs are, and which resources have them."""

    config_map_namespace: str = ""
    config_map_name: str = ""
    matched_resources: tuple[str, ...] = Field(default=(), strict=False)


class GPUShareUnsupportedModel(ConfigModel):
    """A GPU that cannot be shared, by the labels of its vendor and model."""

    vendor: str = ""
    model: str = ""


class DeviceShareArgs(PluginArgs):
    """How devices are scored, and special cases. `allocator` is deprecated and ignored."""

    allocator: str = ""
    scoring_strategy: ScoringStrategy = least_allocated(_DEVICES)
    disable_device_numa_topology_alignment: bool = Field(
        default=False, alias="disableDeviceNUMATopologyAlignment"
    )
    gpu_shared_resource_templates_config: GPUSharedResourceTemplatesConfig = GPUSharedResourceTemplatesConfig(
        config_map_namespace="koordinator-system",
        config_map_name="gpu-shared-resource-templates",
        matched_resources=(extension.HUAWEI_NPU_CORE,),
    )
    gpu_share_unsupported_models: tuple[GPUShareUnsupportedModel, ...] = Field(default=(), strict=False)

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        return self.scoring_strategy.problems("scoringStrategy", "scoring strategy")


KOORDINATOR_ARGS: Mapping[str, type[PluginArgs]] = {
    "DeviceShare": DeviceShareArgs,
}
"""Argument types by plugin name."""
