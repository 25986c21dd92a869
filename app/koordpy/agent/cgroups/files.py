"""The cgroup files of one node: paths on v1 and v2, valid values, and parsing.

The table is Koordinator's (pkg/koordlet/util/system/cgroup_resource.go). Every name is the v1 name; on v2 the
file, its range and its text form differ and are translated here, so that strategies only use v1 terms.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from koordpy.agent.interface.cgroups import CgroupError, InvalidValueError, UnsupportedError
from koordpy.lib import cpuset

MAX_INT64 = 2**63 - 1
CFS_PERIOD_US = 100_000


class Version(Enum):
    """cgroup v1 (a hierarchy per subsystem) or v2 (one hierarchy)."""

    V1 = 1
    V2 = 2


@dataclass(frozen=True)
class CgroupResource:
    """One line of the table."""

    name: str
    subsystem: str
    v2_file: str | None
    minimum: int | None = None
    maximum: int | None = None
    v1_file: str | None = ""
    """"" means: named like the resource. None: v2 only."""
    optional: bool = False
    """The kernel may lack it: a missing file means unsupported, which is not a caller's error."""
    kind: str = "plain"
    """plain, cpuset, quota, shares: how values are compared, merged and translated."""

    def file(self, version: Version) -> str:
        """Return the file's name; raise UnsupportedError where the version has none."""
        name = self.v2_file if version is Version.V2 else (self.name if self.v1_file == "" else self.v1_file)
        if name is None:
            raise UnsupportedError(
                f"resource unsupported: {self.name} does not exist on cgroup {version.name.lower()}"
            )
        return name


def _table(*resources: CgroupResource) -> dict[str, CgroupResource]:
    return {resource.name: resource for resource in resources}


RESOURCES = _table(
    CgroupResource("cpu.shares", "cpu", "cpu.weight", 2, 262144, kind="shares"),
    CgroupResource("cpu.cfs_quota_us", "cpu", "cpu.max", kind="quota"),
    CgroupResource("cpu.cfs_period_us", "cpu", "cpu.max"),
    CgroupResource("cpu.cfs_burst_us", "cpu", "cpu.max.burst", 0, 100_000_000, optional=True),
    CgroupResource("cpu.bvt_warp_ns", "cpu", "cpu.bvt_warp_ns", -1, 2, optional=True),
    CgroupResource("cpu.idle", "cpu", "cpu.idle", 0, 1, optional=True),
    CgroupResource("cpu.stat", "cpu", "cpu.stat"),
    CgroupResource("cpuacct.usage", "cpuacct", "cpu.stat"),
    CgroupResource("cpuset.cpus", "cpuset", "cpuset.cpus", kind="cpuset"),
    CgroupResource("memory.limit_in_bytes", "memory", "memory.max", kind="limit"),
    CgroupResource("memory.usage_in_bytes", "memory", "memory.current"),
    CgroupResource("memory.stat", "memory", "memory.stat"),
    CgroupResource("memory.min", "memory", "memory.min", 0, MAX_INT64, optional=True, kind="larger"),
    CgroupResource("memory.low", "memory", "memory.low", 0, MAX_INT64, optional=True, kind="larger"),
    CgroupResource("memory.high", "memory", "memory.high", 0, MAX_INT64, optional=True, kind="larger"),
    CgroupResource("memory.wmark_ratio", "memory", "memory.wmark_ratio", 0, 100, optional=True),
    CgroupResource(
        "memory.wmark_scale_factor", "memory", "memory.wmark_scale_factor", 1, 1000, optional=True
    ),
    CgroupResource("memory.wmark_min_adj", "memory", "memory.wmark_min_adj", -25, 50, optional=True),
    CgroupResource("memory.priority", "memory", "memory.priority", 0, 12, optional=True),
    CgroupResource("memory.use_priority_oom", "memory", "memory.use_priority_oom", 0, 1, optional=True),
    CgroupResource("memory.oom.group", "memory", "memory.oom.group", 0, 1, optional=True),
)


class CgroupFiles:
    """The cgroup file system below one root. Directories are relative to a subsystem's root."""

    def __init__(self, root: Path, version: Version | None = None) -> None:
        self.root = root
        self.version = version or detect(root)

    @property
    def unified(self) -> bool:
        """Whether the node has cgroup v2."""
        return self.version is Version.V2

    def resource(self, name: str) -> CgroupResource:
        """Return a line of the table; raise UnsupportedError for an unknown name."""
        resource = RESOURCES.get(name)
        if resource is None:
            raise UnsupportedError(f"resource type {name} not registered")
        return resource

    def path(self, name: str, directory: str) -> Path:
        """Return the absolute path of a resource's file in a cgroup directory."""
        resource = self.resource(name)
        base = self.root if self.version is Version.V2 else self.root / resource.subsystem
        return base / directory / resource.file(self.version)

    def exists(self, directory: str, subsystem: str = "cpu") -> bool:
        """Return whether a cgroup directory exists."""
        return self._directory(directory, subsystem).is_dir()

    def walk(self, directory: str, depth: int, subsystem: str = "cpuset") -> Iterator[tuple[str, int]]:
        """Yield a directory and those below it, pre-order and lexical, with their depth (0 to `depth`)."""
        top = self._directory(directory, subsystem)
        if not top.is_dir():
            return
        yield directory, 0
        yield from self._below(directory, top, 1, depth)

    def read(self, name: str, directory: str) -> str:
        """Return a file's text without the trailing line break."""
        path = self.path(name, directory)
        if name == "cpuset.cpus" and self.version is Version.V2:
            path = path.with_name("cpuset.cpus.effective")
        return self._text(path)

    def read_raw(self, name: str, directory: str) -> str:
        """Return the text of the file that `write` writes."""
        return self._text(self.path(name, directory))

    def write(self, name: str, directory: str, text: str) -> None:
        """Write a file that must exist; the text is already in the version's form."""
        path = self.path(name, directory)
        try:
            with path.open("r+") as file:
                file.write(text)
                file.truncate()
        except FileNotFoundError:
            raise UnsupportedError(f"resource unsupported: {path} does not exist") from None
        except OSError as error:
            raise CgroupError(f"cannot write {text!r} to {path}: {error.strerror}") from None

    def validate(self, name: str, value: str) -> None:
        """Raise InvalidValueError if the kernel would reject a value."""
        resource = self.resource(name)
        if resource.kind == "cpuset":
            try:
                cpuset.parse(value)
            except ValueError as error:
                raise InvalidValueError(f"{name}: {error}") from None
            return
        number = _number(name, value)
        low, high = resource.minimum, resource.maximum
        if resource.kind == "shares" and self.version is Version.V2:
            low, high = 2, 262144
        if (low is not None and number < low) or (high is not None and number > high):
            raise InvalidValueError(f"{name}: {value} is not in [{low}, {high}]")

    def translate(self, name: str, value: str) -> str:
        """Return the text for a value: v2 has `max` for -1, and weights for shares."""
        if self.version is Version.V1:
            return value
        kind = self.resource(name).kind
        if kind in ("quota", "limit") and value == "-1":
            return "max"
        if kind == "shares":
            return str(1 + (int(value) - 2) * 9999 // 262142)
        return value

    # --- parsing ---------------------------------------------------------------------------------

    def cfs_quota(self, directory: str) -> int:
        """Return the CFS quota in microseconds, -1 for none."""
        text = self.read("cpu.cfs_quota_us", directory)
        first = text.split()[0] if text.split() else ""
        return -1 if first == "max" else _number("cpu.cfs_quota_us", first)

    def cfs_period(self, directory: str) -> int:
        """Return the CFS period in microseconds."""
        fields = self.read("cpu.cfs_period_us", directory).split()
        return _number("cpu.cfs_period_us", fields[-1] if fields else "")

    def cpus(self, directory: str) -> frozenset[int]:
        """Return the CPUs that a directory's tasks may use."""
        return cpuset.parse(self.read("cpuset.cpus", directory))

    def cpu_usage_ns(self, directory: str) -> int:
        """Return the CPU time used so far, in nanoseconds."""
        if self.version is Version.V1:
            return _number("cpuacct.usage", self.read("cpuacct.usage", directory))
        return self._stat("cpu.stat", directory, "usage_usec") * 1000

    def memory_in_use(self, directory: str) -> int:
        """Return bytes of anonymous and unevictable memory: Koordinator's usage without page cache."""
        prefix = "total_" if self.version is Version.V1 else ""
        return sum(
            self._stat("memory.stat", directory, prefix + key)
            for key in ("inactive_anon", "active_anon", "unevictable")
        )

    def throttled(self, directory: str) -> tuple[int, int]:
        """Return the number of CFS periods, and of those in which the group was throttled."""
        return self._stat("cpu.stat", directory, "nr_periods"), self._stat(
            "cpu.stat", directory, "nr_throttled"
        )

    def _stat(self, name: str, directory: str, key: str) -> int:
        for line in self.read(name, directory).splitlines():
            found, _, value = line.partition(" ")
            if found == key:
                return _number(f"{name} {key}", value)
        raise CgroupError(f"{self.path(name, directory)} has no line {key!r}")

    def _text(self, path: Path) -> str:
        try:
            return path.read_text().rstrip("\n")
        except FileNotFoundError:
            raise UnsupportedError(f"resource unsupported: {path} does not exist") from None
        except OSError as error:
            raise CgroupError(f"cannot read {path}: {error.strerror}") from None

    def _directory(self, directory: str, subsystem: str) -> Path:
        return (self.root if self.version is Version.V2 else self.root / subsystem) / directory

    def _below(self, directory: str, top: Path, level: int, depth: int) -> Iterator[tuple[str, int]]:
        if level > depth:
            return
        for child in sorted(path for path in top.iterdir() if path.is_dir()):
            name = f"{directory}/{child.name}" if directory else child.name
            yield name, level
            yield from self._below(name, child, level + 1, depth)


def detect(root: Path) -> Version:
    """Detect the version from the contents of the cgroup root."""
    return Version.V2 if (root / "cgroup.controllers").exists() else Version.V1


def comparable(resource: CgroupResource) -> Callable[[str], int] | None:
    """Return the order of values of a mergeable resource, None for those that are not merged."""
    if resource.kind in ("quota", "larger"):
        return lambda text: _limit(resource.name, text)
    return None


def _limit(name: str, text: str) -> int:
    first = text.split()[0] if text.split() else ""
    return MAX_INT64 if first in ("max", "-1") else _number(name, first)


def _number(name: str, text: str) -> int:
    if text == "max":
        return MAX_INT64
    try:
        return int(text)
    except ValueError:
        raise InvalidValueError(f"{name}: not a number: {text!r}") from None
