"""Koordinator's plugins that are not installed: a configuration that names them runs without them.

A koord-descheduler's file keeps working with the available plugins. A profile whose evictor is missing evicts
nothing: evicting pods in another way than configured must be chosen explicitly, by an evictor substitute.
"""

import logging
from collections.abc import Container
from typing import ClassVar, Final

from koordpy.api.core import Pod
from koordpy.descheduling.interface import EvictOptions, EvictPlugin

from .configuration import DeschedulerConfiguration, Profile
from .plugin_set import PluginSet

log = logging.getLogger(__name__)

KOORDINATOR_PLUGINS: Final = frozenset(
    {
        "CustomPriority",
        "DefaultEvictor",
        "FragmentationAware",
        "HighNodeUtilization",
        "LowNodeLoad",
        "LowNodeUtilization",
        "MigrationController",
        "PodLifeTime",
        "RemoveDuplicates",
        "RemoveFailedPods",
        "RemovePodsHavingTooManyRestarts",
        "RemovePodsViolatingInterPodAntiAffinity",
        "RemovePodsViolatingNodeAffinity",
        "RemovePodsViolatingNodeTaints",
        "RemovePodsViolatingTopologySpreadConstraint",
        "ScaleDownBinPack",
    }
)
"""Source: Koordinator, `pkg/descheduler/framework/plugins` and `cmd/koord-descheduler/app`."""


class NoEvictor(EvictPlugin):
    """Replaces a missing evictor: no pod is evicted."""

    name: ClassVar[str] = "NoEvictor"

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict nothing."""
        log.info("%s: pod %s stays: its profile has no evictor", options.plugin_name, pod.metadata.key)
        return False


def without_missing(config: DeschedulerConfiguration, installed: Container[str]) -> DeschedulerConfiguration:
    """Return a defaulted configuration without Koordinator's plugins that are not installed; log each."""
    profiles = [_without_missing(profile, installed) for profile in config.profiles]
    return config.model_copy(update={"profiles": profiles})


def _without_missing(profile: Profile, installed: Container[str]) -> Profile:
    if profile.plugins is None:
        return profile
    sets, missing = {}, set()
    for point in ("deschedule", "balance", "evict", "filter"):
        names = getattr(profile.plugins, point).names
        absent = {name for name in names if name in KOORDINATOR_PLUGINS and name not in installed}
        kept = [name for name in names if name not in absent]
        if point == "evict" and absent and not kept:
            kept = [NoEvictor.name]
            log.warning(
                "profile %s evicts nothing: its evictor %s is not installed; --evict-with %s=DefaultEvictor "
                "evicts directly instead",
                profile.name,
                *[", ".join(sorted(absent))] * 2,
            )
        sets[point] = PluginSet.of(kept)
        missing |= absent
    for name in sorted(missing):
        log.warning("profile %s: plugin %s is not installed, and therefore left out", profile.name, name)
    if not missing:
        return profile
    return profile.model_copy(
        update={
            "plugins": profile.plugins.model_copy(update=sets),
            "plugin_config": [entry for entry in profile.plugin_config if entry.name not in missing],
        }
    )
