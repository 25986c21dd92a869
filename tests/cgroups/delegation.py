"""Finds out where this machine lets a test make cgroups: v1 hierarchies or a v2 mount that can be written."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "koordpy-test-"
V1_SUBSYSTEMS = ("cpu", "cpuacct", "cpuset", "memory", "blkio")


@dataclass(frozen=True)
class Hierarchy:
    """A mounted hierarchy. On v2 the controllers are those that groups right below it have."""

    mount: Path
    v2: bool
    controllers: frozenset[str]


def hierarchies() -> Iterator[Hierarchy]:
    """Yield the mounted hierarchies that this process may make groups in."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options = line.split()[:4]
        path = Path(mount)
        if kind not in ("cgroup", "cgroup2") or not os.access(path, os.W_OK):
            continue
        if kind == "cgroup2":
            yield Hierarchy(path, True, frozenset((path / "cgroup.subtree_control").read_text().split()))
        elif found := frozenset(options.split(",")) & frozenset(V1_SUBSYSTEMS):
            yield Hierarchy(path, False, found)


def remove(group: Path, *, patience: float = 30.0) -> None:
    """Remove a group and all below it. Its processes must have been killed; they may still be ending."""
    end = time.monotonic() + patience
    while group.is_dir():
        for folder, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
        if group.is_dir():
            if time.monotonic() > end:
                raise TimeoutError(f"{group} cannot be removed; its processes: {_processes(group)}")
            time.sleep(0.02)


def remove_leftovers(mount: Path) -> None:
    """Remove groups of test processes that were killed before they could do so."""
    for group in mount.glob(f"{PREFIX}*"):
        owner = group.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not Path(f"/proc/{owner}").exists() and not _processes(group):
            with suppress(TimeoutError):
                remove(group, patience=0)


def _processes(group: Path) -> list[str]:
    found: list[str] = []
    for folder, _, _ in os.walk(group):
        with suppress(OSError):
            found += (Path(folder) / "cgroup.procs").read_text().split()
    return found
