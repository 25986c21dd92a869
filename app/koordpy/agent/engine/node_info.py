"""The processors of this node, from sysfs (Koordinator's `node_cpu_info`)."""

from pathlib import Path

from koordpy.agent.interface.facts import NodeCPUInfo, Processor
from koordpy.lib import cpuset


def read(sys_root: Path) -> NodeCPUInfo:
    """Read the topology of all online CPUs. Raises OSError or ValueError for an unexpected sysfs."""
    cpu_root = sys_root / "devices/system/cpu"
    online = cpuset.parse((cpu_root / "online").read_text())
    nodes = _numa_nodes(sys_root / "devices/system/node")
    processors = [
        Processor(
            cpu,
            int((cpu_root / f"cpu{cpu}/topology/core_id").read_text()),
            int((cpu_root / f"cpu{cpu}/topology/physical_package_id").read_text()),
            nodes.get(cpu, 0),
        )
        for cpu in online
    ]
    return NodeCPUInfo(tuple(sorted(processors, key=lambda p: (p.node, p.socket, p.core, p.cpu))))


def _numa_nodes(root: Path) -> dict[int, int]:
    found: dict[int, int] = {}
    for folder in root.glob("node[0-9]*"):
        for cpu in cpuset.parse((folder / "cpulist").read_text()):
            found[cpu] = int(folder.name[len("node") :])
    return found
