"""Network cards with RDMA, as sysfs shows them.

Source: Koordinator, `pkg/koordlet/metricsadvisor/devices/rdma`, `pkg/koordlet/util/system/{rdma,sriov}.go`.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from koordpy.agent.interface.facts import RDMADevice
from koordpy.agent.toolkit import pci

_NAME: Final = re.compile(r"mlx\d+_(\d+)")
_NETWORK: Final = 0x02
"""The base class of PCI devices that are network cards."""


class NetworkCards:
    """Finds the cards; `problems` says by device name why one was left out the last time."""

    def __init__(self, sys_root: Path) -> None:
        self._sys_root = sys_root
        self._infiniband = sys_root / "class/infiniband"
        self.problems: dict[str, str] = {}

    def read(self) -> tuple[RDMADevice, ...]:
        """Return all physical cards by minor; none where the kernel has no RDMA. Raises OSError."""
        self.problems = {}
        return tuple(sorted(self._cards(), key=lambda card: (card.minor, card.bus_id)))

    def _cards(self) -> Iterator[RDMADevice]:
        names: dict[str, list[str]] = {}
        try:
            found = sorted(os.listdir(self._infiniband))
        except FileNotFoundError:
            return
        for name in found:
            try:
                address = (self._infiniband / name / "device").resolve(strict=True).name
            except OSError as error:
                self.problems[name] = str(error)
                continue
            names.setdefault(address, []).append(name)
        for address, of_card in names.items():
            try:
                card = self._card(address, of_card[0])  # the physical function comes first
            except (OSError, ValueError) as error:
                self.problems[of_card[0]] = str(error)
                continue
            if card is not None:
                yield card

    def _card(self, address: str, name: str) -> RDMADevice | None:
        device = pci.folder(self._sys_root, address)
        if int((device / "class").read_text(encoding="ascii"), 16) >> 16 != _NETWORK:
            return None
        if (device / "physfn").exists():
            return None
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"RDMA device {name}: expected a name such as mlx5_0, which has its minor")
        place = pci.place(self._sys_root, address)
        return RDMADevice(
            bus_id=address,
            minor=int(match[1]),
            numa_node=place.numa_node,
            pcie=place.root,
            healthy=self._is_active(name),
            virtual_functions=_virtual_functions(device),
        )

    def _is_active(self, name: str) -> bool:
        """Return whether all ports of a device are up."""
        ports = self._infiniband / name / "ports"
        try:
            states = [(ports / port / "state").read_text(encoding="ascii") for port in os.listdir(ports)]
        except OSError:
            return False
        return bool(states) and all("ACTIVE" in state for state in states)


def _virtual_functions(device: Path) -> tuple[str, ...] | None:
    try:
        configured = int((device / "sriov_numvfs").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    if configured <= 0:
        return None
    links = [path for path in device.glob("virtfn*") if path.is_symlink()]
    return tuple(sorted(os.path.basename(os.readlink(link)) for link in links))
