"""The memory and huge pages of NUMA nodes, from sysfs."""

from pathlib import Path

from koordpy.agent.interface.facts import HugePages, NodeNUMAInfo, NUMANodeMemory
from koordpy.agent.toolkit import stat_text
from koordpy.agent.toolkit.numa_nodes import numa_nodes

SIZES_KIB = (2048, 1048576)
"""The sizes of huge pages that are reported: 2 MiB and 1 GiB."""


def read(sys_root: Path, *, huge_pages: bool) -> NodeNUMAInfo:
    """Return the memory of all NUMA nodes, and their huge pages if wanted. Raises OSError or ValueError."""
    nodes = []
    for node, folder in numa_nodes(sys_root).items():
        meminfo = (folder / "meminfo").read_bytes()
        total = stat_text.kib(meminfo, b"MemTotal:")
        free = sum(
            stat_text.kib(meminfo, key)
            for key in (b"MemFree:", b"Active(file):", b"Inactive(file):", b"SReclaimable:")
        )
        pages = tuple(HugePages(size, _count(folder, size)) for size in SIZES_KIB) if huge_pages else ()
        nodes.append(NUMANodeMemory(node, total, max(total - free, 0), pages))
    return NodeNUMAInfo(tuple(nodes))


def _count(folder: Path, size_kib: int) -> int:
    path = folder / f"hugepages/hugepages-{size_kib}kB/nr_hugepages"
    try:
        return int(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0
