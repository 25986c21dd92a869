"""What the accounting of quotas depends on, of the plugin's arguments and the feature gates."""

from dataclasses import dataclass
from typing import Self

from koordpy.api.quantity import WireQuantity
from koordpy.api.quota.args import ElasticQuotaArgs, HookPluginConf
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface import gates


@dataclass(frozen=True)
class QuotaSettings:
    """The settings of a state; profiles with equal ones share it."""

    default_max: tuple[tuple[str, WireQuantity], ...] = ()
    system_max: tuple[tuple[str, WireQuantity], ...] = ()
    scales_min: bool = True
    hook_plugins: tuple[HookPluginConf, ...] = ()
    multi_tree: bool = False
    ignores_overhead: bool = False
    ignores_terminating: bool = False
    ignores_terminating_at_once: bool = False
    guarantees_usage: bool = False
    label_only: bool = False

    @classmethod
    def of(cls, args: ElasticQuotaArgs, enabled: FeatureGates) -> Self:
        """Read the arguments and gates of a profile."""
        on = enabled.enabled
        return cls(
            default_max=tuple(sorted(args.default_quota_group_max.items())),
            system_max=tuple(sorted(args.system_quota_group_max.items())),
            scales_min=args.enable_min_quota_scale,
            hook_plugins=args.hook_plugins,
            multi_tree=on(gates.MULTI_QUOTA_TREE),
            ignores_overhead=on(gates.IGNORE_POD_OVERHEAD),
            ignores_terminating=on(gates.IGNORE_TERMINATING_POD),
            ignores_terminating_at_once=on(gates.IMMEDIATE_IGNORE_TERMINATING_POD),
            guarantees_usage=on(gates.GUARANTEE_USAGE),
            label_only=on(gates.DISABLE_DEFAULT_QUOTA),
        )
