"""The block devices of a node, from sysfs: what lsblk, vgs and lvs print.

A volume group that has no active logical volume is not seen here, and neither are physical volumes of a
group that none of its logical volumes is on.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_NO_DISK: Final = ("dm-", "loop", "md", "ram")
"""The beginnings of the names of devices that are made of others or of memory."""
_ROM: Final = "5"
"""The SCSI type of optical drives."""
_VOLUME: Final = re.compile("((?:[^-]|--)+)-.+")
"""The name of a logical volume: group and volume, in which hyphens are doubled, around a single hyphen."""


@dataclass(frozen=True)
class Devices:
    """Disks and what they are divided into, all by their paths; groups by their names."""

    numbers: dict[str, str] = field(default_factory=dict)
    """`MAJOR:MINOR` by disk."""
    partitions: dict[str, str] = field(default_factory=dict)
    """Disk by partition."""
    groups: dict[str, str] = field(default_factory=dict)
    """Disk by volume group, for groups with one physical volume."""
    volumes: dict[str, str] = field(default_factory=dict)
    """Volume group by logical volume."""


def read(sys_root: Path) -> Devices:
    """Read all devices. Raises OSError; devices that vanish meanwhile are left out."""
    block = sys_root / "block"
    found = Devices()
    mapped = []
    for device in sorted(block.iterdir()):
        if device.name.startswith("dm-"):
            mapped.append(device)
        elif not device.name.startswith(_NO_DISK) and _text(device / "device" / "type") != _ROM:
            number = _text(device / "dev")
            if number:
                found.numbers[_path(device.name)] = number
                for partition in device.glob("*/partition"):
                    found.partitions[_path(partition.parent.name)] = _path(device.name)
    physical: dict[str, set[str]] = {}
    for device in mapped:
        name = _text(device / "dm" / "name")
        parts = _VOLUME.fullmatch(name) if _text(device / "dm" / "uuid").startswith("LVM-") else None
        if parts is not None:
            group = parts[1].replace("--", "-")
            found.volumes[f"/dev/mapper/{name}"] = group
            physical.setdefault(group, set()).update(_below(block, device.name))
    for group, devices in physical.items():
        if len(devices) == 1:
            (only,) = devices
            found.groups[group] = only if only in found.numbers else found.partitions.get(only, "")
    return found


def _below(block: Path, name: str) -> Iterator[str]:
    """The disks and partitions that a mapped device is made of."""
    slaves = block / name / "slaves"
    for slave in sorted(slaves.iterdir()) if slaves.is_dir() else ():
        if slave.name.startswith("dm-"):
            yield from _below(block, slave.name)
        else:
            yield _path(slave.name)


def _path(name: str) -> str:
    """The path of a device; sysfs has `!` for the slashes in names."""
    return "/dev/" + name.replace("!", "/")


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
