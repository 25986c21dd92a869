"""What the kernel of a node can do for the agent, which plugins need it, and whether the agent may use it."""

import ctypes
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Kind, Support
from koordpy.agent.interface.cgroups import CgroupError, UnsupportedError
from koordpy.agent.interface.layout import CgroupLayout

_PR_SCHED_CORE: Final = 62


@dataclass(frozen=True)
class Feature:
    """Something that kernels may have. Any one of the resources is enough; `plugins` cannot do without it."""

    name: str
    resources: tuple[str, ...]
    plugins: tuple[str, ...]
    hint: str
    """Which kernels have it."""


@dataclass(frozen=True)
class Found:
    """Whether a node has a feature. `missing` says what it lacks, `denied` which right the agent lacks."""

    feature: Feature
    missing: str = ""
    denied: str = ""


_ANOLIS: Final = "Anolis OS or Alibaba Cloud Linux"

FEATURES: Final = (
    Feature("cpu shares", ("cpu.shares",), ("BatchResource",), "the controller cpu"),
    Feature(
        "CFS quota",
        ("cpu.cfs_quota_us",),
        ("CPUSuppresss", "BatchResource", "CPUNormalization"),
        "the controller cpu with CONFIG_CFS_BANDWIDTH",
    ),
    Feature(
        "CPU sets",
        ("cpuset.cpus",),
        ("CPUSuppresss", "CPUSetAllocator"),
        "the controller cpuset",
    ),
    Feature("CPU burst", ("cpu.cfs_burst_us",), ("CPUBurst",), "Linux 5.14 and later"),
    Feature("idle groups", ("cpu.idle",), ("CoreSched",), "Linux 5.15 and later"),
    Feature("group identity", ("cpu.bvt_warp_ns",), ("GroupIdentity",), _ANOLIS),
    Feature(
        "group identity switch",
        ("kernel.sched_group_identity_enabled",),
        ("GroupIdentity", "SystemConfigReconcile"),
        _ANOLIS,
    ),
    Feature(
        "memory limits",
        ("memory.limit_in_bytes",),
        ("BatchResource",),
        "the controller memory",
    ),
    Feature(
        "memory protection",
        ("memory.min", "memory.low"),
        ("CgroupReconcile",),
        f"cgroup v2, or {_ANOLIS}",
    ),
    Feature("memory throttling", ("memory.high",), ("CgroupReconcile",), f"cgroup v2, or {_ANOLIS}"),
    Feature("group OOM", ("memory.oom.group",), ("CgroupReconcile",), f"cgroup v2, or {_ANOLIS}"),
    Feature("background reclaim", ("memory.wmark_ratio",), ("CgroupReconcile",), _ANOLIS),
    Feature("OOM priority", ("memory.priority",), ("CgroupReconcile",), _ANOLIS),
    Feature("cold pages", ("kidled.scan_period_in_seconds",), ("coldmemoryresource",), f"{_ANOLIS}: kidled"),
    Feature("memory cgroup reaper", ("memcg_reaper.reap_background",), ("SystemConfigReconcile",), _ANOLIS),
    Feature(
        "free memory reserve",
        ("vm.min_free_kbytes",),
        ("SystemConfigReconcile",),
        "the procfs of the node",
    ),
    Feature(
        "watermark scale factor",
        ("vm.watermark_scale_factor",),
        ("SystemConfigReconcile",),
        "the procfs of the node",
    ),
    Feature(
        "pressure of groups",
        ("cpu.pressure",),
        ("psi", "CPUEvict", "memoryEvict"),
        "Linux 4.20 and later with CONFIG_PSI, not switched off by psi=0; cgroup v2",
    ),
    Feature(
        "block I/O limits",
        ("blkio.throttle.read_bps_device",),
        ("BlkioReconcile",),
        "the controller blkio of cgroup v1",
    ),
    Feature("block I/O cost", ("blkio.cost.qos",), ("BlkioReconcile",), f"{_ANOLIS}, cgroup v1"),
    Feature(
        "cache and memory bandwidth allocation",
        ("resctrl.schemata",),
        ("ResctrlReconcile",),
        "Intel RDT or AMD QoS, and resctrl mounted at /sys/fs/resctrl",
    ),
    Feature(
        "network class ids", ("net_cls.classid",), ("TCNetworkQoS",), "the controller net_cls of cgroup v1"
    ),
    Feature("OOM scores", ("oom_score_adj",), ("OOMScoreAdj",), "the procfs of the node"),
)


def examine(files: CgroupFiles, layout: CgroupLayout) -> Iterator[Found]:
    """Yield what the node has of the features; the parent of all pods stands for every group.

    Where there is none, it is the root on v1, and any group on v2.
    """
    group = layout.kubepods
    if not files.exists(group):
        below = [name for name, level in files.walk("", 1) if level] if files.unified else []
        group = below[0] if below else ""
    for feature in FEATURES:
        yield _resource(files, group, feature)
    yield core_scheduling()
    yield killing(files, group)
    yield performance_counters(files)


def core_scheduling() -> Found:
    """Return whether tasks can have core scheduling cookies."""
    feature = Feature(
        "core scheduling",
        (),
        ("CoreSched",),
        "Linux 5.14 and later with CONFIG_SCHED_CORE, and processors with hyper-threads",
    )
    libc = ctypes.CDLL(None, use_errno=True)
    cookie = ctypes.c_ulong()
    if libc.prctl(_PR_SCHED_CORE, 0, 0, 0, ctypes.byref(cookie)) == 0:
        return Found(feature)
    code = ctypes.get_errno()
    if code == errno.ENODEV:
        return Found(feature, "the processors have no hyper-threads, or they are off")
    if code == errno.EPERM:
        return Found(feature, denied="prctl(PR_SCHED_CORE) is not permitted")
    return Found(feature, f"prctl(PR_SCHED_CORE) fails: {os.strerror(code)}")


def killing(files: CgroupFiles, group: str) -> Found:
    """Return whether all processes of a group can be killed at once."""
    feature = Feature("cgroup.kill", (), (), "cgroup v2 and Linux 5.14 and later")
    if not files.unified:
        return Found(feature, "cgroup v1 does not have it")
    path = files.root / group / "cgroup.kill"
    return Found(feature) if path.exists() else Found(feature, f"{path} does not exist")


def performance_counters(files: CgroupFiles) -> Found:
    """Return whether cycles and instructions of groups can be counted."""
    feature = Feature(
        "performance counters", (), ("cpi",), "perf_event_open, which most virtual machines lack"
    )
    if not (files.sys_root / "bus/event_source/devices/cpu").exists():
        return Found(feature, "the processors have no counters that this system can use")
    try:
        level = int((files.proc_root / "sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return Found(feature, "kernel.perf_event_paranoid cannot be read")
    if level > 0 and os.geteuid() != 0:
        return Found(feature, denied=f"kernel.perf_event_paranoid is {level}; CAP_PERFMON is needed")
    return Found(feature)


def _resource(files: CgroupFiles, group: str, feature: Feature) -> Found:
    reasons = []
    for name in feature.resources:
        try:
            place = _place(files, group, name)
            files.read_raw(name, place)
            path = files.path(name, place)
        except UnsupportedError as error:
            reasons.append(str(error).removeprefix("resource unsupported: "))
            continue
        except CgroupError as error:
            return Found(feature, denied=str(error))
        kind = files.resource(name).kind
        if kind is not Kind.READ_ONLY and not os.access(path, os.W_OK):
            return Found(feature, denied=_why_not(path))
        return Found(feature)
    return Found(feature, "; ".join(reasons))


def _place(files: CgroupFiles, group: str, name: str) -> str:
    """Return the directory in which a resource is looked for."""
    line = files.resource(name)
    if line.name == "oom_score_adj":
        return "1"
    if not line.subsystem or line.supported_when(files.version) is Support.ROOT:
        return ""
    return group


def _why_not(path: Path) -> str:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"{path} is mounted read-only"
    return f"{path} may not be written by user {os.geteuid()}"
