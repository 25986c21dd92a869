"""The arguments of Koordinator plugins that koordpy does not have, with Koordinator's defaults and
validation.

A file written for a koord-scheduler configures them too. If such plugins are left out, their arguments are
still read: what Koordinator rejects is rejected, so that a file that loads here is valid. Source:
Koordinator, `pkg/scheduler/apis/config` (`v1/types.go`, `v1/defaults.go`, `validation`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from koordpy.api import extension, quantity
from koordpy.api.config_model import ConfigModel, Seconds
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs
from koordpy.lib import int64

SCORING_STRATEGIES = ("MostAllocated", "BalancedAllocation", "LeastAllocated")

_DEVICES = (extension.GPU_MEMORY_RATIO, extension.GPU_MEMORY, "koordinator.sh/rdma", "koordinator.sh/fpga")
_NO_LIMIT: dict[str, str | int | float] = {"cpu": int64.MAX // 5, "memory": int64.MAX // 5}


class ResourceSpec(ConfigModel):
    """A scored resource and its weight."""

    name: str
    weight: int = 0


class ScoringStrategy(ConfigModel):
    """How nodes, NUMA nodes or devices are scored by utilization."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = Field(default=(), strict=False)

    def problems(self, path: str, what: str) -> Iterable[FieldError]:
        """Return the errors in a strategy; `what` is its name in Koordinator's messages."""
        for place, spec in enumerate(self.resources):
            if not 0 < spec.weight <= 100:
                yield invalid(
                    f"{path}.resources[{place}].weight",
                    spec.weight,
                    f"resource weight of {spec.name} not in valid range (0, 100]",
                )
        if self.type not in SCORING_STRATEGIES:
            yield FieldError(
                f"{path}.type",
                f"{what} {self.type} is not supported, expected one of {', '.join(SCORING_STRATEGIES)}",
            )


def _least_allocated(names: Sequence[str]) -> ScoringStrategy:
    return ScoringStrategy(
        type="LeastAllocated", resources=tuple(ResourceSpec(name=name, weight=1) for name in names)
    )


class NodeNUMAResourceArgs(PluginArgs):
    """How CPUs are bound by default, and how nodes and their NUMA nodes are scored."""

    default_cpu_bind_policy: str = Field(default="FullPCPUs", alias="defaultCPUBindPolicy")
    scoring_strategy: ScoringStrategy = _least_allocated(("cpu", "memory"))
    numa_scoring_strategy: ScoringStrategy = _least_allocated(("cpu", "memory"))

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        if self.default_cpu_bind_policy not in ("", "FullPCPUs", "SpreadByPCPUs"):
            yield invalid(
                "defaultCPUBindPolicy",
                self.default_cpu_bind_policy,
                "must specified CPU bind policy FullPCPUs or SpreadByPCPUs",
            )
        yield from self.scoring_strategy.problems("scoringStrategy", "scoring strategy")
        yield from self.numa_scoring_strategy.problems("numaScoringStrategy", "numa scoring strategy")


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
    scoring_strategy: ScoringStrategy = _least_allocated(_DEVICES)
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


class HookPluginConf(ConfigModel):
    """A hook of the quota plugin."""

    key: str = ""
    factory_key: str = ""
    factory_args: str = ""


class ElasticQuotaArgs(PluginArgs):
    """The amounts of the default and system quotas, and how quotas are enforced."""

    delay_evict_time: Seconds = 120.0
    revoke_pod_interval: Seconds = 1.0
    default_quota_group_max: dict[str, str | int | float] = _NO_LIMIT
    system_quota_group_max: dict[str, str | int | float] = _NO_LIMIT
    quota_group_namespace: str = "koordinator-system"
    monitor_all_quotas: bool = False
    enable_check_parent_quota: bool = False
    enable_runtime_quota: bool = True
    enable_min_quota_scale: bool = True
    disable_default_quota_preemption: bool = True
    enable_queue_hint: bool = False
    quota_snapshot_update_interval: Seconds = 120.0
    hook_plugins: tuple[HookPluginConf, ...] = Field(default=(), strict=False)

    @model_validator(mode="before")
    @classmethod
    def _default(cls, given: Any) -> Any:
        """Empty amounts and an empty namespace mean the default."""
        if not isinstance(given, dict):
            return given
        names = ("defaultQuotaGroupMax", "systemQuotaGroupMax", "quotaGroupNamespace")
        return {name: value for name, value in given.items() if name not in names or value not in ({}, "")}

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        yield from _amount_problems("defaultQuotaGroupMax", self.default_quota_group_max)
        yield from _amount_problems("systemQuotaGroupMax", self.system_quota_group_max)
        for name, text, seconds in (
            ("delayEvictTime", "DelayEvictTime", self.delay_evict_time),
            ("revokePodInterval", "RevokePodCycle", self.revoke_pod_interval),
        ):
            if seconds < 0:
                yield invalid(
                    name, f"{seconds:g}s", f"elasticQuotaArgs error, {text} should be a positive value"
                )


def _amount_problems(path: str, amounts: Mapping[str, str | int | float]) -> Iterable[FieldError]:
    for name, amount in sorted(amounts.items()):
        try:
            negative = quantity.from_wire(amount).sign < 0
        except quantity.QuantityError as error:
            yield FieldError(f"{path}[{name}]", str(error))
            continue
        if negative:
            yield FieldError(
                f"{path}[{name}]",
                f"elasticQuotaArgs error, {path} should be a positive value, resourceName:{name}, "
                f"got {amount}",
            )
            break


KOORDINATOR_ARGS: Mapping[str, type[PluginArgs]] = {
    "DeviceShare": DeviceShareArgs,
    "ElasticQuota": ElasticQuotaArgs,
    "NodeNUMAResource": NodeNUMAResourceArgs,
}
"""Argument types by plugin name."""
