"""RDMADeviceInject: the device nodes of the RDMA devices that a container was allocated.

Only a container runtime can add them, while it creates the container: reconciliation cannot. Source:
Koordinator, `pkg/koordlet/runtimehooks/hooks/rdma`.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from koordpy.agent.interface.hook import (
    OFF,
    ContainerRequest,
    Device,
    Hook,
    HookError,
    Response,
    Stage,
    StageFunction,
)
from koordpy.api import device_allocations
from koordpy.api.needs import Needs
from koordpy.lib.feature_gates import FeatureSpec

DEVICES = Path("/dev/infiniband")
CONNECTION_MANAGER: Final = "rdma_cm"


class RDMADeviceInject(Hook):
    """The hook."""

    name: ClassVar[str] = "RDMADeviceInject"
    feature: ClassVar[str | None] = "RDMADeviceInject"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"RDMADeviceInject": OFF}
    needs: ClassVar[Needs] = Needs(elsewhere=("a container runtime that calls the node agent (NRI)",))

    def refusal(self) -> str | None:
        """Device nodes cannot be added to a container that exists."""
        return (
            "device nodes can only be added while a container is created, and no container runtime calls the "
            "node agent"
        )

    def stages(self) -> Sequence[StageFunction]:
        """The device nodes of a new container."""
        return (StageFunction(Stage.PRE_CREATE_CONTAINER, "rdma device inject", self.container),)

    def container(self, request: ContainerRequest, response: Response) -> None:
        """Add the connection manager, and the verbs devices of the allocation. Raises HookError."""
        try:
            devices = device_allocations.of(request.pod.annotations).get("rdma", ())
        except ValueError as error:
            raise HookError(str(error)) from None
        if not devices:
            return
        response.devices = [_device(CONNECTION_MANAGER)]
        for device in devices:
            for address in [each.bus_id for each in device.virtual_functions] or [device.id]:
                response.devices.append(_device(self._verbs_of(address)))

    def _verbs_of(self, address: str) -> str:
        """Return the name of the verbs device of a bus address."""
        if not address or "/" in address or address.startswith("."):
            raise HookError(f"RDMA device: got bus address {address!r}, expected one such as 0000:3b:00.1")
        folder: Path = self.handle.sys_root / "bus/pci/devices" / address / "infiniband_verbs"
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            raise HookError(f"RDMA device {address}: {error}") from None
        if not names:
            raise HookError(f"RDMA device {address}: {folder} is empty")
        return names[0]


def _device(name: str) -> Device:
    path = f"{DEVICES}/{name}"
    try:
        number = os.stat(path).st_rdev
    except OSError as error:
        raise HookError(f"RDMA device {path}: {error}") from None
    return Device(path, os.major(number), os.minor(number))
