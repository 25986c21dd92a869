"""The files of one node: their paths, reading and writing them.

Names, ranges and forms are in `table` and `values`; strategies only use v1's terms.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from koordpy.agent.cgroups import parsing, values
from koordpy.agent.cgroups.descriptors import OpenFiles
from koordpy.agent.cgroups.listing import Listings
from koordpy.agent.cgroups.table import Base, Kind, Resource, Support, resource
from koordpy.agent.cgroups.table import Version as Version
from koordpy.agent.interface.cgroups import (
    CgroupError,
    InvalidValueError,
    MemoryStat,
    PressureStall,
    UnsupportedError,
)
from koordpy.lib import cpuset

_NO_LIMIT: Final = 0x7FFFFFFFFFFFF000
_KUBEPODS: Final = ("kubepods.slice", "kubepods")


class CgroupFiles:
    """The cgroup file system below one root. Directories are relative to a subsystem's root.

    `proc_root`, `sys_root` and `sys_fs_root` are the roots of the other files that the agent writes; the last
    one is by default below `sys_root`.
    """

    def __init__(
        self,
        root: Path,
        version: Version | None = None,
        *,
        proc_root: Path = Path("/proc"),
        sys_root: Path = Path("/sys"),
        sys_fs_root: Path | None = None,
    ) -> None:
        self.root = root
        self.version = version or detect(root)
        self.proc_root, self.sys_root = proc_root, sys_root
        self.sys_fs_root = sys_fs_root or sys_root / "fs"
        self.open_files = OpenFiles()
        self.listings = Listings()
        self._found: set[str] = set()
        """Resources that the parent of all pods was seen to have."""
        self._bases: dict[str, tuple[str, str]] = {}

    @property
    def unified(self) -> bool:
        """Whether the node has cgroup v2."""
        return self.version is Version.V2

    @property
    def resctrl_root(self) -> Path:
        """Where the resctrl file system is mounted."""
        return self.sys_fs_root / "resctrl"

    def resource(self, name: str) -> Resource:
        """Return a line of the table; raise UnsupportedError for an unknown name."""
        return resource(name)

    def path(self, name: str, directory: str) -> Path:
        """Return the absolute path of a resource's file in a directory."""
        folder, file = self._place(name, directory)
        return Path(folder) / file

    def exists(self, directory: str, subsystem: str = "cpu") -> bool:
        """Return whether a cgroup directory exists."""
        return self._directory(directory, subsystem).is_dir()

    def folder(self, name: str, directory: str) -> str:
        """Return the absolute path of the folder that has a resource's file."""
        return self._place(name, directory)[0]

    def identity(self, name: str, directory: str) -> int:
        """Return what tells a cgroup or a process from a later one of the same name, 0 if it is gone.

        It is the number of a cgroup's inode, and the time at which a process started. What cannot be told
        apart, such as resctrl groups, has 1.
        """
        line = self.resource(name)
        folder = self.folder(name, directory)
        try:
            if line.base is Base.PROC and directory:
                stat = Path(folder, "stat").read_text(encoding="utf-8", errors="replace")
                return int(stat.rpartition(")")[2].split()[19])
            found = os.stat(folder)
        except (OSError, IndexError, ValueError):
            return 0
        return found.st_ino if line.base is Base.CGROUP else 1

    def supported(self, name: str, directory: str = "") -> str | None:
        """Return why a resource cannot be used in a directory, None if it can."""
        try:
            line = self.resource(name)
            path = self.path(name, directory)
        except UnsupportedError as error:
            return str(error)
        when = line.supported_when(self.version)
        if when is Support.ALWAYS or name in self._found:
            return None
        if when is Support.FILE:
            return None if path.exists() else f"{path} does not exist"
        parents = [""] if when is Support.ROOT else [known for known in _KUBEPODS if self._has(line, known)]
        for parent in parents:
            if self.path(name, parent).exists():
                self._found.add(name)
                return None
        where = "the root cgroup" if when is Support.ROOT else "the parent of all pods"
        return f"{path.name} does not exist in {where}"

    def walk(self, directory: str, depth: int, subsystem: str = "cpuset") -> Iterator[tuple[str, int]]:
        """Return a directory and those below it, pre-order and lexical, with their depth (0 to `depth`)."""
        top = f"{self.root}/{directory}" if self.unified else f"{self.root}/{subsystem}/{directory}"
        try:
            return iter(self.listings.below(top, directory, depth))
        except OSError as error:
            if os.path.isdir(top) and error.errno not in parsing.GONE:
                raise CgroupError(f"cannot list {error.filename or top}: {error.strerror}") from None
        return iter(())

    def read(self, name: str, directory: str) -> str:
        """Return a file's text without the trailing line break."""
        if name == "cpuset.cpus" and self.version is Version.V2:
            name = "cpuset.cpus.effective"
        return self.read_raw(name, directory)

    def read_raw(self, name: str, directory: str) -> str:
        """Return the text of the file that `write` writes."""
        folder, file = self._place(name, directory)
        try:
            return self.open_files.read(folder, file).rstrip(b"\n").decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            raise UnsupportedError(f"resource unsupported: {folder}/{file} does not exist") from None
        except OSError as error:
            if error.errno in parsing.GONE:
                raise UnsupportedError(f"resource unsupported: {folder}/{file} is gone") from None
            raise CgroupError(f"cannot read {folder}/{file}: {error.strerror}") from None

    def write(self, name: str, directory: str, text: str) -> None:
        """Write a file that must exist; the text is already in the version's form."""
        folder, file = self._place(name, directory)
        kind = self.resource(name).kind
        how = os.O_APPEND if kind is Kind.MOVE else os.O_TRUNC
        # The kernel does not see a write of no bytes, such as that of an empty CPU set.
        line = f"{text}\n" if kind in (Kind.MOVE, Kind.SCHEMATA) or not text else text
        try:
            descriptor = os.open(f"{folder}/{file}", os.O_WRONLY | os.O_CLOEXEC | how)
            try:
                os.write(descriptor, line.encode())
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            raise UnsupportedError(f"resource unsupported: {folder}/{file} does not exist") from None
        except OSError as error:
            if error.errno in parsing.GONE:
                raise UnsupportedError(f"resource unsupported: {folder}/{file} is gone") from None
            raise CgroupError(f"cannot write {text!r} to {folder}/{file}: {error.strerror}") from None

    def validate(self, name: str, value: str) -> None:
        """Raise InvalidValueError if the kernel would reject a value."""
        values.validate(self.resource(name), self.version, value)

    def translate(self, name: str, value: str, current: str = "") -> str:
        """Return the text for a value: v2 has `max` for -1, and weights for shares."""
        return values.to_text(self.resource(name), self.version, value, current)

    # --- parsing ---------------------------------------------------------------------------------

    def integer(self, name: str, directory: str) -> int:
        """Return the number in a resource's file; `max` is the largest 64-bit integer."""
        return values.number(name, self.read(name, directory))

    def cpu_shares(self, directory: str) -> int:
        """Return the CPU shares; on v2 they are computed from the weight."""
        found = self.integer("cpu.shares", directory)
        return values.weight_to_shares(found) if self.version is Version.V2 else found

    def cfs_quota(self, directory: str) -> int:
        """Return the CFS quota in microseconds, -1 for none."""
        text = self.read("cpu.cfs_quota_us", directory)
        first = text.split()[0] if text.split() else ""
        return -1 if first == "max" else values.number("cpu.cfs_quota_us", first)

    def cfs_period(self, directory: str) -> int:
        """Return the CFS period in microseconds."""
        fields = self.read("cpu.cfs_period_us", directory).split()
        return values.number("cpu.cfs_period_us", fields[-1] if fields else "")

    def cpus(self, directory: str) -> frozenset[int]:
        """Return the CPUs that a directory's tasks may use."""
        try:
            return cpuset.parse(self.read("cpuset.cpus", directory))
        except ValueError as error:
            raise InvalidValueError(f"{self.path('cpuset.cpus', directory)}: {error}") from None

    def cpu_usage_ns(self, directory: str) -> int:
        """Return the CPU time used so far, in nanoseconds."""
        if self.version is Version.V1:
            return values.number("cpuacct.usage", self.read("cpuacct.usage", directory))
        return self._stat("cpu.stat", directory, "usage_usec") * 1000

    def memory_limit(self, directory: str) -> int:
        """Return the memory limit in bytes, -1 for none."""
        found = self.integer("memory.limit_in_bytes", directory)
        return -1 if found >= _NO_LIMIT else found

    def memory_usage(self, directory: str) -> int:
        """Return all bytes charged to the cgroup, with page cache and kernel memory."""
        return self.integer("memory.usage_in_bytes", directory)

    def memory_stat(self, directory: str) -> MemoryStat:
        """Return the memory by type."""
        v1 = self.version is Version.V1
        keys = parsing.MEMORY_STAT_V1 if v1 else parsing.MEMORY_STAT_V2
        return MemoryStat(*self._stats("memory.stat", directory, keys))

    def memory_in_use(self, directory: str) -> int:
        """Return bytes of anonymous and unevictable memory: Koordinator's usage without page cache."""
        v1 = self.version is Version.V1
        keys = parsing.MEMORY_STAT_V1 if v1 else parsing.MEMORY_STAT_V2
        return sum(self._stats("memory.stat", directory, keys[4:]))

    def numa_memory(self, directory: str) -> Mapping[int, int]:
        """Return pages of 4 KiB by NUMA node (on v2 those of anonymous memory and files)."""
        text = self.read("memory.numa_stat", directory)
        try:
            return parsing.numa_v1(text) if self.version is Version.V1 else parsing.numa_v2(text)
        except ValueError as error:
            raise CgroupError(f"{self.path('memory.numa_stat', directory)}: {error}") from None

    def throttled(self, directory: str) -> tuple[int, int]:
        """Return the number of CFS periods, and of those in which the group was throttled."""
        periods, throttled = self._stats("cpu.stat", directory, ("nr_periods", "nr_throttled"))
        return periods, throttled

    def throttled_ns(self, directory: str) -> int:
        """Return the time in nanoseconds that the group was throttled so far."""
        if self.version is Version.V1:
            return self._stat("cpu.stat", directory, "throttled_time")
        return self._stat("cpu.stat", directory, "throttled_usec") * 1000

    def pressure(self, resource: str, directory: str) -> PressureStall:
        """Return the pressure stall information of `cpu`, `memory` or `io`."""
        name = f"{resource}.pressure"
        try:
            return parsing.pressure(self.read(name, directory))
        except ValueError as error:
            raise CgroupError(f"{self.path(name, directory)}: {error}") from None

    def processes(self, directory: str) -> tuple[int, ...]:
        """Return the ids of the processes right in a cgroup, ascending."""
        return self._ids("cgroup.procs", directory)

    def threads(self, directory: str) -> tuple[int, ...]:
        """Return the ids of the threads right in a cgroup, ascending."""
        return self._ids("tasks", directory)

    def _ids(self, name: str, directory: str) -> tuple[int, ...]:
        # Opened each time: v1 answers an open file from a list that it keeps for a second after each read.
        path = self.path(name, directory)
        try:
            found = tuple(sorted(map(int, path.read_bytes().split())))
        except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
            raise UnsupportedError(f"resource unsupported: {path} does not exist") from None
        except OSError as error:
            if error.errno in parsing.GONE:
                raise UnsupportedError(f"resource unsupported: {path} is gone") from None
            raise CgroupError(f"cannot read {path}: {error.strerror}") from None
        except ValueError as error:
            raise CgroupError(f"{path}: {error}") from None
        if found and found[0] == 0:
            # To the kernel 0 is the caller itself: the agent would change its own process.
            raise CgroupError(f"{path} has processes of another PID namespace; the agent needs hostPID")
        return found

    def _stat(self, name: str, directory: str, key: str) -> int:
        return self._stats(name, directory, (key,))[0]

    def _stats(self, name: str, directory: str, keys: tuple[str, ...]) -> list[int]:
        text = self.read(name, directory)
        try:
            return [parsing.field(text, key) for key in keys]
        except KeyError as error:
            raise CgroupError(f"{self.path(name, directory)} has no line {error.args[0]!r}") from None
        except ValueError as error:
            raise InvalidValueError(f"{self.path(name, directory)}: {error}") from None

    # --- places ----------------------------------------------------------------------------------

    def _place(self, name: str, directory: str) -> tuple[str, str]:
        """Return the folder and the name of a resource's file."""
        known = self._bases.get(name)
        if known is None:
            known = self._bases[name] = self._base(self.resource(name))
        base, file = known
        return (f"{base}/{directory}" if directory else base), file

    def _base(self, line: Resource) -> tuple[str, str]:
        file = line.file(self.version)
        match line.base:
            case Base.PROC:
                base = self.proc_root
            case Base.SYS:
                base = self.sys_root
            case Base.RESCTRL:
                base = self.resctrl_root
            case _:
                base = self.root if self.version is Version.V2 else self.root / line.subsystem
        return str((base / file).parent), Path(file).name

    def _has(self, line: Resource, directory: str) -> bool:
        return self._directory(directory, line.subsystem).is_dir()

    def _directory(self, directory: str, subsystem: str) -> Path:
        return (self.root if self.version is Version.V2 else self.root / subsystem) / directory


def detect(root: Path) -> Version:
    """Detect the version from the contents of the cgroup root."""
    return Version.V2 if (root / "cgroup.controllers").exists() else Version.V1
