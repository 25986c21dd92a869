"""The arguments of ElasticQuota, with Koordinator's defaults and validation.

Source: Koordinator, `pkg/scheduler/apis/config` (`v1/types.go`, `v1/defaults.go`, `validation`).
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import Field, model_validator

from koordpy.api import quantity
from koordpy.api.config_model import ConfigModel, NoEffect, Seconds
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs
from koordpy.lib import int64

_NO_LIMIT: Final[dict[str, str | int | float]] = {"cpu": int64.MAX // 5, "memory": int64.MAX // 5}


_ALWAYS_ON = NoEffect(
    "always on, and exact: a pod that its quota refused is retried once the quota has room for it", but=True
)
_NO_SNAPSHOTS = NoEffect("pods are retried by the present amounts of quotas, not by a snapshot of them")


class HookPluginConf(ConfigModel):
    """A hook of the quota plugin."""

    key: str = ""
    factory_key: str = ""
    factory_args: str = ""


class ElasticQuotaArgs(PluginArgs):
    """The amounts of the default and system quotas, and how quotas are enforced.

    `preemption_fits_quota` is koordpy's own: pods are evicted only if the quota then has room for the pod.
    `revoke_exactly` is koordpy's own: the pods that are evicted from a quota in excess are chosen by all
    resources, while Koordinator goes on with those of the last pod alone.
    """

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
    enable_queue_hint: Annotated[bool, _ALWAYS_ON] = False
    quota_snapshot_update_interval: Annotated[Seconds, _NO_SNAPSHOTS] = 120.0
    hook_plugins: tuple[HookPluginConf, ...] = Field(default=(), strict=False)
    preemption_fits_quota: bool = False
    revoke_exactly: bool = False

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
