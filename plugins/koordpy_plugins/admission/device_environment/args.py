"""The names of the environment variables."""

import re
from collections.abc import Iterable
from typing import Final

from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs

_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


class DeviceEnvironmentArgs(PluginArgs):
    """The variables of containers that request GPUs, and of those that request RDMA.

    The first is what NVIDIA's container runtime reads, the second is named as the device plugin for SR-IOV
    networks names its variables. An empty name means none.
    """

    gpu_variable: str = "NVIDIA_VISIBLE_DEVICES"
    rdma_variable: str = "PCIDEVICE_KOORDINATOR_SH_RDMA"

    def problems(self) -> Iterable[FieldError]:
        """Names are those that Kubernetes accepts, and differ."""
        for field, name in (("gpuVariable", self.gpu_variable), ("rdmaVariable", self.rdma_variable)):
            if name and not _NAME.fullmatch(name):
                yield invalid(field, name, "must be a name of an environment variable")
        if self.gpu_variable and self.gpu_variable == self.rdma_variable:
            yield invalid("rdmaVariable", self.rdma_variable, "must differ from gpuVariable")
