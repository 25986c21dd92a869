"""The kernel settings that NodeSLO `systemStrategy` asks for.

Source: Koordinator, `pkg/koordlet/qosmanager/plugins/sysreconcile`.
"""

import logging
from collections.abc import Iterator
from typing import Final

from koordpy.agent.interface import Update
from koordpy.api.slo.system import SystemStrategy

log = logging.getLogger(__name__)

REASON: Final = "systemConfig reconcile"

MIN_FREE_KBYTES: Final = "vm.min_free_kbytes"

RANGES: Final = {
    MIN_FREE_KBYTES: (10 * 1024, 10 * 1024 * 1024),
    "vm.watermark_scale_factor": (10, 400),
    "memcg_reaper.reap_background": (0, 1),
    "kernel.sched_group_identity_enabled": (0, 1),
    "pagecache_limit.enabled": (0, 1),
}
"""The valid values of a setting; others are not written."""


def updates(strategy: SystemStrategy, memory: int) -> list[Update]:
    """Return what to write on a node with some bytes of memory; invalid values are logged and left out."""
    found = []
    for resource, value, formula in _values(strategy, memory):
        low, high = RANGES.get(resource, (value, value))
        if low <= value <= high:
            found.append(Update(resource, "", str(value), REASON, formula))
        else:
            log.warning("%s: %d is not in [%d, %d] and is not written", resource, value, low, high)
    return found


def sched_features(strategy: SystemStrategy, current: str) -> list[Update]:
    """Return what to write to `sched_features`, given its content.

    Raises ValueError for a content that says both `NAME` and `NO_NAME`.
    """
    words = frozenset(current.split())
    both = sorted(word for word in words if f"NO_{word}" in words)
    if both:
        raise ValueError(f"sched_features: {both[0]} is both on and off")
    wanted = (name if on else f"NO_{name}" for name, on in sorted(strategy.sched_features.items()))
    return [
        Update("sched_features", "", text, REASON, "schedFeatures") for text in wanted if text not in words
    ]


def _values(strategy: SystemStrategy, memory: int) -> Iterator[tuple[str, int, str]]:
    factor = strategy.min_free_kbytes_factor
    if factor is not None:
        kibibytes = memory // 1024
        if kibibytes <= 0:
            return
        yield MIN_FREE_KBYTES, kibibytes * factor // 10000, f"{factor}/10000 of {kibibytes} KiB"
    for resource, value, field in (
        ("vm.watermark_scale_factor", strategy.watermark_scale_factor, "watermarkScaleFactor"),
        ("memcg_reaper.reap_background", strategy.memcg_reap_back_ground, "memcgReapBackGround"),
        (
            "kernel.sched_group_identity_enabled",
            strategy.sched_group_identity_enabled,
            "schedGroupIdentityEnabled",
        ),
        ("kernel.sched_idle_saver_wmark", strategy.sched_idle_saver_wmark, "schedIdleSaverWmark"),
        ("pagecache_limit.enabled", strategy.page_cache_limit_enabled, "pageCacheLimitEnabled"),
    ):
        if value is not None:
            yield resource, value, field
