"""PCI devices in a folder that looks like sysfs."""

from pathlib import Path


class PCIDevices:
    """Adds devices, with the links by which drivers and classes show them."""

    def __init__(self, sys: Path) -> None:
        self.sys = sys

    def add(self, address: str, *, class_: int = 0x020000, numa_node: int = 0) -> Path:
        folder = self.sys / "devices/pci0000:3a/0000:3a:00.0" / address
        folder.mkdir(parents=True)
        (folder / "class").write_text(f"0x{class_:06x}\n")
        (folder / "numa_node").write_text(f"{numa_node}\n")
        bus = self.sys / "bus/pci/devices"
        bus.mkdir(parents=True, exist_ok=True)
        (bus / address).symlink_to(folder)
        return folder

    def add_gpu(self, address: str, *, numa_node: int = 0) -> None:
        folder = self.add(address, class_=0x030200, numa_node=numa_node)
        driver = self.sys / "bus/pci/drivers/nvidia"
        driver.mkdir(parents=True, exist_ok=True)
        (driver / "module").touch()
        (driver / address).symlink_to(folder)

    def add_rdma(self, device: Path, name: str, *states: str) -> None:
        folder = device / "infiniband" / name
        for port, state in enumerate(states, 1):
            (folder / "ports" / str(port)).mkdir(parents=True)
            (folder / "ports" / str(port) / "state").write_text(f"{state}\n")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "device").symlink_to(device)
        class_ = self.sys / "class/infiniband"
        class_.mkdir(parents=True, exist_ok=True)
        (class_ / name).symlink_to(folder)

    def add_functions(self, device: Path, *addresses: str) -> None:
        (device / "sriov_numvfs").write_text(f"{len(addresses)}\n")
        for index, address in enumerate(addresses):
            function = self.add(address)
            (function / "physfn").symlink_to(device)
            (device / f"virtfn{index}").symlink_to(function)
