"""Detects the cgroup layout of a node."""

from pathlib import Path

from koordpy.agent.interface.layout import CgroupLayout


def found(cgroup_root: Path) -> bool:
    """Return whether there is a parent of all pods."""
    return _driver(cgroup_root) is not None


def detect(cgroup_root: Path, kubelet_driver: str | None = None) -> CgroupLayout:
    """Return the layout of the existing folders, else that of the kubelet's cgroup driver, else systemd's."""
    driver = _driver(cgroup_root) or kubelet_driver or "systemd"
    return CgroupLayout(systemd=driver == "systemd")


def _driver(cgroup_root: Path) -> str | None:
    for base in (cgroup_root, cgroup_root / "cpu"):
        if (base / "kubepods.slice").is_dir():
            return "systemd"
        if (base / "kubepods").is_dir():
            return "cgroupfs"
    return None
