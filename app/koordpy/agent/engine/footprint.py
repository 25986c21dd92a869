"""What the process holds: open files, threads and memory, and how much of each is too much."""

import os
import resource
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST_FILES: Final = 0.5
"""The share of the file descriptors that the process may open."""

MOST_THREADS: Final = 128

MOST_MEMORY: Final = 0.8
"""The share of the memory limit of the process's cgroup."""

_SHORT_MEMORY: Final = 0.6
"""The share of the memory limit from which on the memory of every round is examined."""

_LEAST_GROWTH: Final = 0.05
"""The share of the memory limit that a unit must have added to be called a leak."""

_LIMIT_FILES: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""In a container these are the files of its own cgroup."""
_UNLIMITED: Final = 1 << 50
_PAGE: Final = resource.getpagesize()


@dataclass
class Footprint:
    """Open files, threads, and bytes of resident memory."""

    files: int = 0
    threads: int = 0
    memory: int = 0


@dataclass
class Limits:
    """What the process may hold before a plugin that leaks is stopped; memory 0 means no limit."""

    files: int
    threads: int = MOST_THREADS
    memory: int = 0

    @classmethod
    def of_process(cls) -> "Limits":
        """Return the limits of this process."""
        return cls(int(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * MOST_FILES), memory=memory_limit())

    def excess(self, held: Footprint) -> dict[str, str]:
        """Return what the process has too much of, by field, in words."""
        found = {}
        if held.files > self.files:
            found["files"] = f"{held.files} open files"
        if held.threads > self.threads:
            found["threads"] = f"{held.threads} threads"
        if self.memory and held.memory > MOST_MEMORY * self.memory:
            found["memory"] = f"{held.memory >> 20} MiB of memory, of {self.memory >> 20} that it may have"
        return found

    def least(self, what: str) -> int:
        """Return how much of something a unit must have left behind to be the cause."""
        return int(_LEAST_GROWTH * self.memory) if what == "memory" else 1


_short = False


def is_short() -> bool:
    """Return whether memory was short when it was looked at last."""
    return _short


def look(limits: Limits) -> Footprint:
    """Return what the process holds now."""
    global _short
    held = Footprint(open_files(), threads(), resident_bytes())
    _short = bool(limits.memory) and held.memory > _SHORT_MEMORY * limits.memory
    return held


def open_files() -> int:
    """Return the number of this process's open file descriptors."""
    # The size is that number from Linux 6.2 on, and 0 before; a list of thousands takes milliseconds.
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))


def threads() -> int:
    """Return the number of threads that Python knows of."""
    return threading.active_count()


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE


def memory_limit(files: Iterable[str] = _LIMIT_FILES) -> int:
    """Return the memory limit of this process's container; 0 without one."""
    for name in files:
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        return int(text) if text.isdecimal() and int(text) < _UNLIMITED else 0
    return 0
