"""Files in which vendors' tools describe accelerators: each is a JSON list of devices.

Source: Koordinator, `pkg/koordlet/metricsadvisor/devices/xpu` and `pkg/koordlet/util/device.go`.
"""

import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from koordpy.agent.interface.facts import DeviceStatus, PeerLink, XPUDevice, XPUTopology

log = logging.getLogger(__name__)

LARGEST_FILE: Final = 1 << 20
MOST_FILES: Final = 64
LARGEST_NUMBER: Final = 2**31 - 1


class _Link(msgspec.Struct, rename="camel"):
    peer_minor: str = ""
    type: str = ""


class _Topology(msgspec.Struct):
    links: list[_Link] | None = msgspec.field(default=None, name="p2pLinks")
    must_honor_partition: bool = msgspec.field(default=False, name="mustHonorPartition")
    node_id: str = msgspec.field(default="", name="nodeID")
    pcie_id: str = msgspec.field(default="", name="pcieID")
    bus_id: str = msgspec.field(default="", name="busID")


class _Status(msgspec.Struct, rename="camel"):
    healthy: bool = False
    err_code: str = ""
    err_message: str = ""


class _Device(msgspec.Struct):
    vendor: str = ""
    model: str = ""
    uuid: str = ""
    minor: str = ""
    resources: dict[str, str] | None = None
    topology: _Topology | None = None
    status: _Status | None = None


_DECODER: Final = msgspec.json.Decoder(list[_Device] | None)


@dataclass
class _File:
    stamp: tuple[int, int, int]
    devices: tuple[XPUDevice, ...]


class DeviceInfos:
    """The devices of all files of a folder. A file is read again only after it has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, _File] = {}
        self._problems: dict[str, str] = {}

    def read(self) -> tuple[XPUDevice, ...]:
        """Return all devices in the order of the files; none if there is no folder. Raises OSError.

        A file that cannot be read counts as it last was, so that no device disappears while it is written.
        """
        try:
            names = sorted(entry.name for entry in os.scandir(self._folder) if not entry.is_dir())
        except FileNotFoundError:
            names = []
        if len(names) > MOST_FILES:
            self._problem("", f"{self._folder} has {len(names)} files; the first {MOST_FILES} are read")
        self._files = {name: kept for name, kept in self._files.items() if name in names}
        self._problems = {name: kept for name, kept in self._problems.items() if not name or name in names}
        for name in names[:MOST_FILES]:
            try:
                self._read(name)
            except (OSError, ValueError) as error:
                self._problem(name, f"{self._folder / name}: {error}")
        return tuple(device for name in sorted(self._files) for device in self._files[name].devices)

    def _read(self, name: str) -> None:
        path = self._folder / name
        found = path.stat()
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        kept = self._files.get(name)
        if kept is not None and kept.stamp == stamp:
            return
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("expected a regular file")
        if found.st_size > LARGEST_FILE:
            raise ValueError(f"{found.st_size} bytes are too many, expected at most {LARGEST_FILE}")
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
        try:
            devices = _DECODER.decode(text) or []
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise ValueError(f"not a list of devices: {error}") from None
        known = (self._device(name, device) for device in devices)
        self._files[name] = _File(stamp, tuple(device for device in known if device is not None))
        self._problems.pop(name, None)

    def _device(self, file: str, device: _Device) -> XPUDevice | None:
        what = f"{self._folder / file}: device {device.uuid!r}"
        minor = _number(device.minor)
        if minor is None:
            log.error("%s is left out: got minor %.40r, expected a number", what, device.minor)
            return None
        return XPUDevice(
            vendor=device.vendor,
            model=device.model,
            uuid=device.uuid,
            minor=minor,
            resources=device.resources or {},
            topology=_topology(what, device.topology),
            status=_status(device.status),
        )

    def _problem(self, name: str, problem: str) -> None:
        if self._problems.get(name) != problem:
            self._problems[name] = problem
            log.error("%s", problem)


def _topology(what: str, given: _Topology | None) -> XPUTopology | None:
    if given is None:
        return None
    node = _number(given.node_id)
    if node is None and given.node_id not in ("", "-1"):
        log.error("%s: got nodeID %.40r, expected a number; its NUMA node is unknown", what, given.node_id)
    links = (
        None if given.links is None else tuple(PeerLink(each.peer_minor, each.type) for each in given.links)
    )
    return XPUTopology(
        -1 if node is None else node, given.pcie_id, given.bus_id, links, given.must_honor_partition
    )


def _number(text: str) -> int | None:
    """Return a number that a Device can have, None for everything else."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    number = int(text)
    return number if number <= LARGEST_NUMBER else None


def _status(given: _Status | None) -> DeviceStatus | None:
    return None if given is None else DeviceStatus(given.healthy, given.err_code, given.err_message)
