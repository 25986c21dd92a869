"""Which layout the cgroups of a node have."""

from pathlib import Path

from .interface.layout import CgroupLayout


def detect(cgroup_root: Path) -> CgroupLayout:
    """Return the layout of the folders that exist; systemd's where none does."""
    for base in (cgroup_root, cgroup_root / "cpu"):
        if (base / "kubepods.slice").is_dir():
            return CgroupLayout(systemd=True)
        if (base / "kubepods").is_dir():
            return CgroupLayout(systemd=False)
    return CgroupLayout(systemd=True)
