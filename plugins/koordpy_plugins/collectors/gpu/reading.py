"""The node's GPUs and what processes use of them, read by a thread of its own."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from koordpy.agent.interface.facts import GPUDevice, GPUDriver
from koordpy.agent.toolkit import pci

from .library import GPUError, GPULibrary, ProcessUsage

log = logging.getLogger(__name__)

DRIVER: Final = "bus/pci/drivers/nvidia"
_PREFIX: Final = "NVIDIA "
"""Newer drivers put it before the model."""


@dataclass(frozen=True)
class Reading:
    """The usage of all devices at one time; a device that did not answer is only in `problems`."""

    at: datetime
    usage: Mapping[str, Mapping[int, ProcessUsage]]
    """By UUID of the device and process id."""
    problems: Mapping[str, str]
    """By UUID of the device."""


class GPUReader:
    """Reads through the library. Its methods may block."""

    def __init__(self, library: GPULibrary, sys_root: Path, now: Callable[[], datetime]) -> None:
        self._library, self._sys_root, self._now = library, sys_root, now
        self._is_open = False
        self.devices: tuple[GPUDevice, ...] = ()
        """In the library's order."""
        self.driver = GPUDriver()

    def open(self) -> None:
        """Find the devices. Raises GPUError, OSError or ValueError."""
        addresses = bus_ids(self._sys_root)
        if not addresses:
            raise GPUError(f"{self._sys_root / DRIVER} has no devices")
        self._library.open()
        self._is_open = True
        found = []
        for address in addresses:
            identity, place = self._library.identity(address), pci.place(self._sys_root, address)
            device = GPUDevice(
                uuid=identity.uuid,
                minor=identity.minor,
                memory_total=identity.memory_total,
                numa_node=place.numa_node,
                pcie=place.root,
                bus_id=address,
            )
            found.append((identity.index, identity.model, device))
        found.sort(key=lambda each: each[0])
        self.devices = tuple(device for _, _, device in found)
        self.driver = self._driver([model for _, model, _ in found])

    def read(self) -> Reading:
        """Read the usage of every device that answers."""
        usage: dict[str, Mapping[int, ProcessUsage]] = {}
        problems: dict[str, str] = {}
        for device in self.devices:
            try:
                usage[device.uuid] = self._library.processes(device.bus_id)
            except GPUError as error:
                problems[device.uuid] = str(error)
        return Reading(self._now(), usage, problems)

    def close(self) -> None:
        """Give up the driver."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._library.close()
        except GPUError as error:
            log.warning("%s", error)

    def _driver(self, models: list[str]) -> GPUDriver:
        """Return model and driver; nothing where models differ or the driver does not tell its version."""
        if len(set(models)) != 1 or not models[0]:
            return GPUDriver()
        try:
            version = self._library.driver_version()
        except GPUError:
            return GPUDriver()
        return GPUDriver(models[0].removeprefix(_PREFIX).replace(" ", "-"), version)


def bus_ids(sys_root: Path) -> list[str]:
    """Return the PCI addresses of all devices that NVIDIA's driver has."""
    try:
        names = sorted(path.name.lower() for path in (sys_root / DRIVER).iterdir())
    except OSError:
        return []
    return [name for name in names if pci.ADDRESS.fullmatch(name)]
