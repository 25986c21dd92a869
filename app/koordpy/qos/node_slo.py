"""The strategies of one node: NodeSLO merged over Koordinator's defaults (pkg/util/sloconfig).

A present value wins, lists are merged position by position and cut to the new length, maps by key. Values
of a section that is switched off are replaced by neutral ones for the classes LSR, LS and BE.
"""

import copy
from typing import Any

_RESCTRL = {"enable": False, "catRangeStartPercent": 0, "catRangeEndPercent": 100, "mbaPercent": 100}
_BLKIO: dict[str, Any] = {"enable": False}
_NETWORK = {"enable": False, "ingressRequest": 0, "ingressLimit": 0, "egressRequest": 0, "egressLimit": 0}


def _cpu(group_identity: int, core_expeller: bool) -> dict[str, Any]:
    return {
        "enable": False,
        "groupIdentity": group_identity,
        "schedIdle": 0,
        "coreExpeller": core_expeller,
    }


def _memory(ratio: int, scale: int, min_adj: int) -> dict[str, Any]:
    return {
        "enable": False,
        "minLimitPercent": 0,
        "lowLimitPercent": 0,
        "throttlingPercent": 0,
        "wmarkRatio": ratio,
        "wmarkScalePermill": scale,
        "wmarkMinAdj": min_adj,
        "priorityEnable": 0,
        "priority": 0,
        "oomKillGroup": 0,
    }


_NONE = {"cpuQOS": _cpu(0, False), "memoryQOS": _memory(0, 50, 0), "resctrlQOS": _RESCTRL}


def _class(cpu: dict[str, Any], memory: dict[str, Any], cat_end: int = 100) -> dict[str, Any]:
    return {
        "cpuQOS": cpu,
        "memoryQOS": memory,
        "blkioQOS": _BLKIO,
        "resctrlQOS": {**_RESCTRL, "catRangeEndPercent": cat_end},
        "networkQOS": _NETWORK,
    }


DEFAULTS: dict[str, Any] = {
    "resourceUsedThresholdWithBE": {
        "enable": False,
        "cpuSuppressThresholdPercent": 65,
        "cpuSuppressPolicy": "cpuset",
        "memoryEvictThresholdPercent": 70,
        "cpuEvictPolicy": "evictByRealLimit",
    },
    "resourceQOSStrategy": {
        "policies": {"cpuPolicy": "groupIdentity", "netQOSPolicy": "tc"},
        "lsrClass": _class(_cpu(2, True), _memory(95, 20, -25)),
        "lsClass": _class(_cpu(2, True), _memory(95, 20, -25)),
        "beClass": _class(_cpu(-1, False), _memory(95, 20, 50), cat_end=30),
        "systemClass": _class(_cpu(0, False), _memory(0, 50, 0)),
        "cgroupRoot": {"blkioQOS": _BLKIO},
    },
    "cpuBurstStrategy": {
        "policy": "none",
        "cpuBurstPercent": 1000,
        "cfsQuotaBurstPercent": 300,
        "cfsQuotaBurstPeriodSeconds": -1,
        "sharePoolThresholdPercent": 50,
    },
    "systemStrategy": {
        "minFreeKbytesFactor": 100,
        "watermarkScaleFactor": 150,
        "memcgReapBackGround": 0,
        "totalNetworkBandwidth": "0",
    },
}
"""What each section says where a NodeSLO says nothing."""


def merged(spec: dict[str, Any], extension_defaults: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a NodeSLO spec with every default filled in.

    `hostApplications` is taken as it is. Of `extensions`, only keys with a registered default are kept.
    """
    result = {section: merge(default, spec.get(section)) for section, default in DEFAULTS.items()}
    for name in ("lsrClass", "lsClass", "beClass"):
        of_class = result["resourceQOSStrategy"][name]
        for section, neutral in _NONE.items():
            if not of_class[section].get("enable"):
                of_class[section] = copy.deepcopy(neutral)
    result["hostApplications"] = spec.get("hostApplications") or []
    given = (spec.get("extensions") or {}).get("Object") or {}
    result["extensions"] = {
        key: merge(default, given.get(key)) for key, default in (extension_defaults or {}).items()
    }
    return result


def merge(default: Any, value: Any) -> Any:
    """Return `value` laid over `default`, as Go unmarshals JSON onto a filled struct. Null means absent."""
    if value is None:
        return copy.deepcopy(default)
    if isinstance(default, dict) and isinstance(value, dict):
        result = copy.deepcopy(default)
        for key, item in value.items():
            result[key] = merge(default.get(key), item)
        return result
    if isinstance(default, list) and isinstance(value, list):
        return [merge(default[i] if i < len(default) else None, item) for i, item in enumerate(value)]
    return copy.deepcopy(value)
