"""Detects the cgroup layout of a node."""

from pathlib import Path

from koordpy.agent.interface.layout import CgroupLayout


def detect(cgroup_root: Path) -> CgroupLayout:
    """Return the layout of the existing folders; systemd's if there are none."""
    for base in (cgroup_root, cgroup_root / "cpu"):
        if (base / "kubepods.slice").is_dir():
            return CgroupLayout(systemd=True)
        if (base / "kubepods").is_dir():
            return CgroupLayout(systemd=False)
    return CgroupLayout(systemd=True)
