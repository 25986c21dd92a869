"""The memory of one pod or container, from the cheapest file that has it."""

import resource

from koordpy.agent.interface import Cgroups
from koordpy.agent.toolkit.kept_file import KeptFile, read_once
from koordpy.agent.toolkit.memory_stat import MemoryStat, in_use_of_numa_stat, numa_bytes

_PAGE_SIZE = resource.getpagesize()


class MemoryReader:
    """Reads memory.stat; where memory.numa_stat of v1 has the same numbers, only that.

    memory.numa_stat of v2 is the longer file of the two.
    """

    __slots__ = ("_file", "_numa_file", "_numa_text", "_stat", "_unified", "_uses_numa_stat")

    def __init__(self, cgroups: Cgroups, directory: str) -> None:
        self._unified = cgroups.unified
        path = str(cgroups.path("memory.stat", directory))
        self._stat = MemoryStat(unified=self._unified)
        self._file = KeptFile(path)
        self._numa_file = KeptFile(path.removesuffix("memory.stat") + "memory.numa_stat")
        self._numa_text = b""
        self._uses_numa_stat = not self._unified

    def in_use(self) -> int:
        """Return the bytes without page cache. Raises OSError or ValueError."""
        if not self._uses_numa_stat:
            return self._stat.in_use(self._file.read())
        try:
            self._numa_text = self._numa_file.read()
            found = in_use_of_numa_stat(self._numa_text, _PAGE_SIZE)
        except FileNotFoundError:
            found = None
        if found is not None:
            return found
        in_use = self._stat.in_use(self._file.read())  # fails if it is the cgroup that is not there
        self._uses_numa_stat = False
        self._numa_file.close()
        return in_use

    def by_numa_node(self) -> dict[int, int]:
        """Return the bytes by NUMA node, as when the bytes in use were read. Raises OSError or ValueError."""
        text = self._numa_text if self._uses_numa_stat else read_once(self._numa_file.path)
        return numa_bytes(text, unified=self._unified, page_size=_PAGE_SIZE)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._numa_file.close()
