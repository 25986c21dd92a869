"""Memory usage of NUMA nodes, from sysfs."""

from pathlib import Path

from koordpy.agent.toolkit import stat_text
from koordpy.agent.toolkit.kept_file import KeptFile
from koordpy.agent.toolkit.numa_nodes import numa_nodes


def files(sys_root: Path) -> dict[int, KeptFile]:
    """Return the meminfo of each NUMA node. Raises OSError or ValueError."""
    return {node: KeptFile(folder / "meminfo") for node, folder in numa_nodes(sys_root).items()}


def used(meminfo: bytes) -> int:
    """Return the bytes in use without page cache and reclaimable slabs. Raises ValueError."""
    kib = stat_text.kib
    free = (
        kib(meminfo, b"MemFree:")
        + kib(meminfo, b"Active(file):")
        + kib(meminfo, b"Inactive(file):")
        + kib(meminfo, b"SReclaimable:")
    )
    return max(kib(meminfo, b"MemTotal:") - free, 0)
