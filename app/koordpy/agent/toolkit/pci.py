"""PCI devices in sysfs: their NUMA node and their PCI root.

Source: Koordinator, `pkg/koordlet/metricsadvisor/devices/helper/topology.go`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ADDRESS: Final = re.compile(r"(1?[0-9a-f]{0,4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
"""A PCI address in lower case, such as `0000:3b:00.0`."""

_ROOT: Final = re.compile(r"pci\d{4}:[0-9a-fA-F]{2}")


@dataclass(frozen=True)
class PCIPlace:
    """Where a device is: a device without a NUMA node counts to node 0. `root` may be empty."""

    numa_node: int
    root: str


def folder(sys_root: Path, address: str) -> Path:
    """Return the folder of a device."""
    return sys_root / "bus/pci/devices" / address


def place(sys_root: Path, address: str) -> PCIPlace:
    """Return where a device is. Raises OSError or ValueError."""
    device = folder(sys_root, address)
    text = (device / "numa_node").read_text(encoding="ascii").strip()
    try:
        node = int(text)
    except ValueError:
        raise ValueError(f"{device}/numa_node: got {text!r}, expected a number") from None
    root = _ROOT.search(str(device.resolve(strict=True)))
    return PCIPlace(0 if node == -1 else node, root.group() if root is not None else "")
