"""The cgroup files of a node and its other kernel files, as plugins read and write them.

Resources have their cgroup v1 names everywhere (`cpu.cfs_quota_us`); on v2 the files, and the form of their
texts, are translated. Directories are relative to the root of a subsystem. Files outside cgroups are
resources too: sysctls (`vm.min_free_kbytes`, directory ""), `oom_score_adj` (the directory is the process
id) and `resctrl.schemata` (the directory is the group, "" for the root).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class CgroupError(OSError):
    """A cgroup file cannot be read or written; the message names the file and why."""


class UnsupportedError(CgroupError):
    """This node's kernel or cgroup version has no such resource, or the cgroup is gone."""


class InvalidValueError(CgroupError, ValueError):
    """A value is outside the kernel's range for the resource."""


@dataclass(frozen=True, slots=True)
class Update:
    """A requested value of one file.

    The reason is logged and audited once per actual write. The formula is a short text that shows how the
    value was computed, with its inputs (`65% of 16 cores - LS 4.2 - system 0.8`); it is remembered with the
    file's original value, and `koordpy qos explain` prints it.

    Values have v1's form. Files with a line for each device (`blkio.*`) take such a line, `253:16 2048`, and
    0 removes it; `resctrl.schemata` takes one line, `L3:0=ff;1=ff`; `cgroup.procs`, `tasks` and
    `resctrl.tasks` take one id, which is moved.
    """

    resource: str
    directory: str
    value: str
    reason: str = "UpdateCgroups"
    formula: str = ""


@dataclass(frozen=True, slots=True)
class MemoryStat:
    """Bytes of memory of a cgroup and all below it, by type."""

    cache: int
    rss: int
    inactive_file: int
    active_file: int
    inactive_anon: int
    active_anon: int
    unevictable: int

    @property
    def usage(self) -> int:
        """Koordinator's usage without page cache."""
        return self.inactive_anon + self.active_anon + self.unevictable

    @property
    def usage_with_page_cache(self) -> int:
        """Koordinator's usage with page cache."""
        return self.rss + self.cache


@dataclass(frozen=True, slots=True)
class Pressure:
    """One line of a pressure file: percentages of time stalled, and all stall time in microseconds."""

    avg10: float
    avg60: float
    avg300: float
    total_us: int


@dataclass(frozen=True, slots=True)
class PressureStall:
    """A pressure file. `full` is None where the kernel does not have it (CPU on older kernels)."""

    some: Pressure
    full: Pressure | None


class Cgroups(Protocol):
    """Reads cgroup files. Every method raises CgroupError if a file cannot be read.

    Files are kept open between reads, so that reading the same file again is one system call.
    """

    @property
    def unified(self) -> bool:
        """Whether the node has cgroup v2."""
        ...

    def path(self, name: str, directory: str) -> Path:
        """Return the absolute path of a resource's file. Raises UnsupportedError if the version has none."""
        ...

    def exists(self, directory: str, subsystem: str = "cpu") -> bool:
        """Return whether a cgroup directory exists."""
        ...

    def supported(self, name: str, directory: str = "") -> str | None:
        """Return why a resource cannot be used in a directory, None if it can (Koordinator's checks)."""
        ...

    def walk(self, directory: str, depth: int, subsystem: str = "cpuset") -> Iterator[tuple[str, int]]:
        """Yield a directory and those below it, pre-order and lexical, with their depth (0 to `depth`)."""
        ...

    def read(self, name: str, directory: str) -> str:
        """Return the text of a resource's file without the trailing line break."""
        ...

    def integer(self, name: str, directory: str) -> int:
        """Return the number in a resource's file; `max` is the largest 64-bit integer."""
        ...

    def cpu_shares(self, directory: str) -> int:
        """Return the CPU shares; on v2 they are computed from the weight."""
        ...

    def cfs_quota(self, directory: str) -> int:
        """Return the CFS quota in microseconds, -1 for none."""
        ...

    def cfs_period(self, directory: str) -> int:
        """Return the CFS period in microseconds."""
        ...

    def cpus(self, directory: str) -> frozenset[int]:
        """Return the CPUs that a directory's tasks may use."""
        ...

    def cpu_usage_ns(self, directory: str) -> int:
        """Return the CPU time used so far, in nanoseconds."""
        ...

    def memory_limit(self, directory: str) -> int:
        """Return the memory limit in bytes, -1 for none."""
        ...

    def memory_usage(self, directory: str) -> int:
        """Return all bytes charged to the cgroup, with page cache and kernel memory."""
        ...

    def memory_stat(self, directory: str) -> MemoryStat:
        """Return the memory by type."""
        ...

    def memory_in_use(self, directory: str) -> int:
        """Return bytes of anonymous and unevictable memory: Koordinator's usage without page cache."""
        ...

    def numa_memory(self, directory: str) -> Mapping[int, int]:
        """Return pages of 4 KiB by NUMA node (on v2 those of anonymous memory and files)."""
        ...

    def throttled(self, directory: str) -> tuple[int, int]:
        """Return the number of CFS periods, and of those in which the group was throttled."""
        ...

    def throttled_ns(self, directory: str) -> int:
        """Return the time in nanoseconds that the group was throttled so far."""
        ...

    def pressure(self, resource: str, directory: str) -> PressureStall:
        """Return the pressure stall information of `cpu`, `memory` or `io`."""
        ...

    def processes(self, directory: str) -> tuple[int, ...]:
        """Return the ids of the processes right in a cgroup, ascending.

        Processes that only hostPID makes visible are missing on cgroup v1; on v2 they raise CgroupError.
        """
        ...

    def threads(self, directory: str) -> tuple[int, ...]:
        """Return the ids of the threads right in a cgroup, ascending, as `processes` does."""
        ...


class Executor(Protocol):
    """Writes cgroup files and other kernel files: only changes, and only values that the kernel accepts.

    A value that was requested before is not compared with the file again for some seconds, unless `cached` is
    false. Original values are remembered, so that everything can be undone.
    """

    @property
    def revision(self) -> int:
        """A number that grows with every request that is more than the repetition of one that is in place.

        It counts the requests of all plugins. While it stays the same, a plugin need not repeat its requests
        every round: now and then is enough, to replace what other processes write.
        """
        ...

    def update(self, update: Update, *, cached: bool = True) -> bool:
        """Set a file to a value; return whether it was needed and possible.

        A resource that this node does not have, or that must be left alone, is not an error. Raises
        CgroupError for all other failures.
        """
        ...

    def update_batch(self, updates: Sequence[Update], *, cached: bool = True) -> None:
        """Update files in order; failures are logged and counted, the rest continues."""
        ...

    def leveled_update_batch(self, levels: Sequence[Sequence[Update]]) -> None:
        """Update a tree, levels from the root down, so that no child ever exceeds its parent."""
        ...

    def create_group(self, directory: str, reason: str = "CreateCATGroup") -> bool:
        """Create a resctrl group; return whether it is new. Raises CgroupError, UnsupportedError."""
        ...

    def remove_group(self, directory: str, reason: str = "RemoveCATGroup") -> bool:
        """Remove a resctrl group; return whether there was one. Raises CgroupError."""
        ...

    def paused(self, directory: str = "") -> bool:
        """Return whether nothing may be written in a directory, because it was undone (`koordpy qos undo`).

        For plugins that change something which is not a file: they take it back, and ask again every second.
        """
        ...
