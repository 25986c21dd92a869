"""The table of the node's files: where they are on v1 and v2, what they accept, and how they are compared.

Every name is the v1 name (Koordinator: pkg/koordlet/util/system/{cgroup,system}_resource.go).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from koordpy.agent.interface.cgroups import UnsupportedError

MAX_INT64: Final = 2**63 - 1


class Version(Enum):
    """cgroup v1 (a hierarchy per subsystem) or v2 (one hierarchy)."""

    V1 = 1
    V2 = 2


class Base(StrEnum):
    """The file system that a resource is in."""

    CGROUP = "cgroup"
    PROC = "proc"
    SYS = "sys"
    RESCTRL = "resctrl"


class Kind(StrEnum):
    """How values of a resource are validated, compared, merged and translated."""

    PLAIN = "plain"
    READ_ONLY = "read only"
    CPUSET = "cpuset"
    QUOTA = "quota"
    PERIOD = "period"
    SHARES = "shares"
    LIMIT = "limit"
    LARGER = "larger"
    """A tree of values in which a parent's should not be smaller than its children's."""
    DEVICE = "device"
    """A line for each block device."""
    SCHEMATA = "schemata"
    """A line for each resource of resctrl."""
    FEATURES = "features"
    """Words that are switched on as NAME and off as NO_NAME."""
    MOVE = "move"
    """Tasks are moved by writing their ids; there is nothing to compare or to restore."""
    CLASS_ID = "class id"


class Support(StrEnum):
    """How it is found out whether the node has a resource."""

    ALWAYS = "always"
    FILE = "file"
    """The file exists in the directory."""
    KUBEPODS = "kubepods"
    """The file exists in the parent of all pods."""
    ROOT = "root"
    """The file exists in the root."""


@dataclass(frozen=True)
class Resource:
    """One line of the table."""

    name: str
    subsystem: str
    v2_file: str | None
    minimum: int | None = None
    maximum: int | None = None
    v1_file: str | None = ""
    """"" means: named like the resource. None: v2 only."""
    kind: Kind = Kind.PLAIN
    support: Support = Support.ALWAYS
    v2_support: Support = Support.ALWAYS
    base: Base = Base.CGROUP
    v2_maximum: int | None = None
    """The maximum on v2, if it differs from v1's."""

    def file(self, version: Version) -> str:
        """Return the file's name; raise UnsupportedError where the version has none."""
        name = self.v2_file if version is Version.V2 else (self.name if self.v1_file == "" else self.v1_file)
        if name is None:
            raise UnsupportedError(
                f"resource unsupported: {self.name} does not exist on cgroup {version.name.lower()}"
            )
        return name

    @property
    def mergeable(self) -> bool:
        """Whether a tree of this resource grows from the root and shrinks from the leaves."""
        return self.kind in (Kind.QUOTA, Kind.LARGER, Kind.CPUSET)

    def range(self, version: Version) -> tuple[int | None, int | None]:
        """Return the smallest and largest value in v1's form."""
        if version is Version.V2 and self.v2_maximum is not None:
            return self.minimum, self.v2_maximum
        return self.minimum, self.maximum

    def supported_when(self, version: Version) -> Support:
        """Return how to find out whether the node has it."""
        return self.v2_support if version is Version.V2 else self.support


def _cpu() -> Iterator[Resource]:
    once, file = Support.KUBEPODS, Support.FILE
    yield Resource("cpu.shares", "cpu", "cpu.weight", 2, 262144, kind=Kind.SHARES)
    yield Resource("cpu.cfs_quota_us", "cpu", "cpu.max", kind=Kind.QUOTA)
    yield Resource("cpu.cfs_period_us", "cpu", "cpu.max", kind=Kind.PERIOD)
    yield Resource(
        "cpu.cfs_burst_us",
        "cpu",
        "cpu.max.burst",
        0,
        100_000_000,
        support=file,
        v2_support=once,
        v2_maximum=MAX_INT64,
    )
    yield Resource("cpu.bvt_warp_ns", "cpu", "cpu.bvt_warp_ns", -1, 2, support=file, v2_support=file)
    yield Resource("cpu.idle", "cpu", "cpu.idle", 0, 1, support=once, v2_support=once)
    yield Resource("cpu.stat", "cpu", "cpu.stat", kind=Kind.READ_ONLY)
    yield Resource("cpuacct.stat", "cpuacct", "cpu.stat", kind=Kind.READ_ONLY)
    yield Resource("cpuacct.usage", "cpuacct", "cpu.stat", kind=Kind.READ_ONLY)
    yield Resource("tasks", "cpu", "cgroup.threads", 0, MAX_INT64, kind=Kind.MOVE)
    yield Resource("cgroup.procs", "cpu", "cgroup.procs", 0, MAX_INT64, kind=Kind.MOVE)
    yield Resource(
        "perf_event.procs", "perf_event", "cgroup.procs", v1_file="cgroup.procs", kind=Kind.READ_ONLY
    )
    yield Resource("cpuset.cpus", "cpuset", "cpuset.cpus", kind=Kind.CPUSET)
    yield Resource(
        "cpuset.cpus.effective", "cpuset", "cpuset.cpus.effective", v1_file=None, kind=Kind.READ_ONLY
    )
    for name in ("cpu.pressure", "memory.pressure", "io.pressure"):
        yield Resource(name, "cpuacct", name, kind=Kind.READ_ONLY, support=once, v2_support=once)


def _memory() -> Iterator[Resource]:
    once, file = Support.KUBEPODS, Support.FILE
    yield Resource("memory.limit_in_bytes", "memory", "memory.max", kind=Kind.LIMIT)
    yield Resource("memory.usage_in_bytes", "memory", "memory.current", kind=Kind.READ_ONLY)
    yield Resource("memory.stat", "memory", "memory.stat", kind=Kind.READ_ONLY)
    yield Resource("memory.numa_stat", "memory", "memory.numa_stat", kind=Kind.READ_ONLY)
    for name in ("memory.min", "memory.low", "memory.high"):
        yield Resource(name, "memory", name, 0, MAX_INT64, kind=Kind.LARGER, support=once)
    for name, low, high in (
        ("memory.wmark_ratio", 0, 100),
        ("memory.wmark_scale_factor", 1, 1000),
        ("memory.wmark_min_adj", -25, 50),
        ("memory.priority", 0, 12),
        ("memory.use_priority_oom", 0, 1),
        ("memory.oom.group", 0, 1),
    ):
        yield Resource(name, "memory", name, low, high, support=once, v2_support=file)
    for name, high in (("enable", 1), ("size", MAX_INT64), ("sync", 1)):
        name = f"memory.pagecache_limit.{name}"
        yield Resource(name, "memory", name, 0, high, v1_file=None, v2_support=file)
    yield Resource("memory.idle_page_stats", "memory", None, kind=Kind.READ_ONLY, support=once)


def _block_io() -> Iterator[Resource]:
    once = Support.KUBEPODS
    for name in ("read_iops", "read_bps", "write_iops", "write_bps"):
        name = f"blkio.throttle.{name}_device"
        yield Resource(name, "blkio", None, 0, MAX_INT64, kind=Kind.DEVICE, support=once)
    yield Resource("blkio.cost.weight", "blkio", None, 1, 100, kind=Kind.DEVICE, support=once)
    yield Resource("blkio.cost.qos", "blkio", None, 0, MAX_INT64, kind=Kind.DEVICE, support=Support.ROOT)
    yield Resource("blkio.cost.model", "blkio", None, 1, MAX_INT64, kind=Kind.DEVICE, support=Support.ROOT)
    yield Resource(
        "net_cls.classid", "net_cls", "net_cls.classid", kind=Kind.CLASS_ID, support=once, v2_support=once
    )


def _system() -> Iterator[Resource]:
    """Files outside of cgroups; their paths are the same on v1 and v2."""
    always, file = Support.ALWAYS, Support.FILE
    for name, path, low, high, support in (
        ("vm.min_free_kbytes", "sys/vm/min_free_kbytes", 10 * 1024, 10 * 1024 * 1024, always),
        ("vm.watermark_scale_factor", "sys/vm/watermark_scale_factor", 10, 400, always),
        ("kernel.sched_group_identity_enabled", "sys/kernel/sched_group_identity_enabled", 0, 1, file),
        ("kernel.sched_core", "sys/kernel/sched_core", 0, 1, file),
        ("kernel.sched_idle_saver_wmark", "sys/kernel/sched_idle_saver_wmark", None, None, file),
        ("oom_score_adj", "oom_score_adj", -1000, 1000, file),
    ):
        yield _outside(Base.PROC, name, path, low, high, support)
    for name, path, low, high in (
        ("memcg_reaper.reap_background", "kernel/mm/memcg_reaper/reap_background", 0, 1),
        ("pagecache_limit.enabled", "kernel/mm/pagecache_limit/enabled", 0, 1),
        ("kidled.scan_period_in_seconds", "kernel/mm/kidled/scan_period_in_seconds", 0, MAX_INT64),
        ("kidled.use_hierarchy", "kernel/mm/kidled/use_hierarchy", 0, 1),
    ):
        yield _outside(Base.SYS, name, path, low, high, file)
    yield _outside(
        Base.SYS, "sched_features", "kernel/debug/sched_features", None, None, file, kind=Kind.FEATURES
    )
    yield _outside(Base.RESCTRL, "resctrl.schemata", "schemata", None, None, file, kind=Kind.SCHEMATA)
    yield _outside(Base.RESCTRL, "resctrl.tasks", "tasks", 0, MAX_INT64, file, kind=Kind.MOVE)


def _outside(
    base: Base,
    name: str,
    path: str,
    low: int | None,
    high: int | None,
    support: Support,
    *,
    kind: Kind = Kind.PLAIN,
) -> Resource:
    return Resource(
        name, "", path, low, high, v1_file=path, kind=kind, support=support, v2_support=support, base=base
    )


RESOURCES: Final = {
    resource.name: resource for part in (_cpu(), _memory(), _block_io(), _system()) for resource in part
}


def resource(name: str) -> Resource:
    """Return a line of the table; raise UnsupportedError for an unknown name."""
    found = RESOURCES.get(name)
    if found is None:
        raise UnsupportedError(f"resource type {name} not registered")
    return found
