"""The arguments of DeviceShare, with Koordinator's defaults and validation.

Source: Koordinator, `pkg/scheduler/apis/config` (`v1/types.go`, `v1/defaults.go`, `validation`).
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from koordpy.api import extension
from koordpy.api.config_model import ConfigModel, NoEffect
from koordpy.api.field_error import FieldError
from koordpy.api.plugin import PluginArgs
from koordpy.scheduling.toolkit.scoring_strategy import ScoringStrategy, least_allocated

_SCORED = (extension.GPU_MEMORY_RATIO, extension.GPU_MEMORY, extension.RDMA, extension.FPGA)

_STRATEGIES = ("LeastAllocated", "MostAllocated")


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
    """How devices are scored, and special cases. `allocator` is deprecated."""

    allocator: Annotated[str, NoEffect("there is one allocator")] = ""
    scoring_strategy: ScoringStrategy = least_allocated(_SCORED)
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
        """Validate as Koordinator does, both when it reads the file and when it creates the plugin."""
        found = list(self.scoring_strategy.problems("scoringStrategy", "scoring strategy"))
        if not found and self.scoring_strategy.type not in _STRATEGIES:
            found.append(
                FieldError(
                    "scoringStrategy.type",
                    f"scoring strategy {self.scoring_strategy.type} is not supported, "
                    f"expected one of {', '.join(_STRATEGIES)}",
                )
            )
        return found
