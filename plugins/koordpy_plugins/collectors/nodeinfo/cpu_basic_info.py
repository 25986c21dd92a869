"""What all processors of a node have in common, from procfs and sysfs."""

from pathlib import Path

from koordpy.agent.interface.facts import CPUBasicInfo

_UNKNOWN = "unknown"


def read(proc_root: Path, sys_root: Path, resctrl_root: Path) -> CPUBasicInfo:
    """Return what is known; a machine without a file has not what it would say."""
    fields = _cpuinfo(proc_root / "cpuinfo")
    return CPUBasicInfo(
        cpu_model=fields.get("model name") or fields.get("Model Name") or _UNKNOWN,
        hyper_thread_enabled=_text(sys_root / "devices/system/cpu/smt/active") == "1",
        # Only Intel's driver says so.
        turbo_enabled=_text(sys_root / "devices/system/cpu/intel_pstate/no_turbo") == "0",
        cat_l3_cbm_mask=_text(resctrl_root / "info/L3/cbm_mask"),
        vendor_id=fields.get("vendor_id") or _UNKNOWN,
    )


def _cpuinfo(path: Path) -> dict[str, str]:
    """Return the fields of the first processor."""
    fields: dict[str, str] = {}
    for line in _text(path).splitlines():
        name, colon, value = line.partition(":")
        if not colon and fields:
            break
        fields[name.strip()] = value.strip()
    return fields


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
