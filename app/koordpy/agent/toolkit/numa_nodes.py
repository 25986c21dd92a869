"""The NUMA nodes of a machine, from sysfs."""

from pathlib import Path

from koordpy.lib import cpuset


def numa_nodes(sys_root: Path) -> dict[int, Path]:
    """Return the folder of each NUMA node by id, without nodes of generic initiators, which have no memory.

    Raises ValueError if the ids are not contiguous from 0, and OSError.
    """
    root = sys_root / "devices/system/node"
    initiators = _ids_in(root / "has_generic_initiator")
    found = {
        int(folder.name[len("node") :]): folder
        for folder in root.glob("node[0-9]*")
        if int(folder.name[len("node") :]) not in initiators
    }
    nodes = {node: found[node] for node in sorted(found)}
    if list(nodes) != list(range(len(nodes))):
        raise ValueError(f"NUMA nodes of {root}: got ids {list(nodes)}, expected 0 to {len(nodes) - 1}")
    return nodes


def _ids_in(path: Path) -> frozenset[int]:
    try:
        text = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return frozenset()
    return cpuset.parse(text)
