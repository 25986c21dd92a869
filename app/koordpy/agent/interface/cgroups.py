"""The cgroup files of a node, as plugins read and write them.

Resources have their cgroup v1 names everywhere (`cpu.cfs_quota_us`); on v2 the files, and the form of their
texts, are translated. Directories are relative to the root of a subsystem.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class CgroupError(OSError):
    """A cgroup file cannot be read or written; the message names the file and why."""


class UnsupportedError(CgroupError):
    """This node's kernel or cgroup version has no such resource."""


class InvalidValueError(CgroupError, ValueError):
    """A value is outside the kernel's range for the resource."""


@dataclass(frozen=True)
class Update:
    """A requested value of one cgroup file. The reason is logged once per actual write."""

    resource: str
    directory: str
    value: str
    reason: str = "UpdateCgroups"


class Cgroups(Protocol):
    """Reads cgroup files. Every method raises CgroupError if a file cannot be read."""

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

    def walk(self, directory: str, depth: int, subsystem: str = "cpuset") -> Iterator[tuple[str, int]]:
        """Yield a directory and those below it, pre-order and lexical, with their depth (0 to `depth`)."""
        ...

    def read(self, name: str, directory: str) -> str:
        """Return the text of a resource's file without the trailing line break."""
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

    def memory_in_use(self, directory: str) -> int:
        """Return bytes of anonymous and unevictable memory: Koordinator's usage without page cache."""
        ...

    def throttled(self, directory: str) -> tuple[int, int]:
        """Return the number of CFS periods, and of those in which the group was throttled."""
        ...


class Executor(Protocol):
    """Writes cgroup files: only changes, and only values that the kernel accepts.

    A value that was requested before is not compared with the file again for about a minute, unless `cached`
    is false.
    """

    def update(self, update: Update, *, cached: bool = True) -> bool:
        """Set a file to a value; return whether it was needed and possible.

        A resource that this node does not have is not an error. Raises CgroupError for all other failures.
        """
        ...

    def update_batch(self, updates: Sequence[Update], *, cached: bool = True) -> None:
        """Update files in order; failures are logged and counted, the rest continues."""
        ...

    def leveled_update_batch(self, levels: Sequence[Sequence[Update]]) -> None:
        """Update a tree, levels from the root down, so that no child ever exceeds its parent."""
        ...
