"""GPUEnvInject: the environment and mounts by which a container finds the GPUs that it was allocated.

Only a container runtime can add them, while it creates the container: reconciliation cannot. Source:
Koordinator, `pkg/koordlet/runtimehooks/hooks/gpu`.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import ClassVar, Final

from koordpy.agent.interface import FlagSet
from koordpy.agent.interface.gates import HAMI_CORE_VGPU_MONITOR
from koordpy.agent.interface.hook import (
    OFF,
    ContainerRequest,
    Hook,
    HookError,
    Mount,
    Response,
    Stage,
    StageFunction,
)
from koordpy.api import device_allocations, extension
from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.needs import Needs
from koordpy.lib.feature_gates import FeatureSpec

LIBRARY_FLAG: Final = "hami-core-library-directory-path"
HAMI_CORE: Final = "HAMi-core"
LOCKS: Final = "/tmp/vgpulock"
WHOLE_GPU: Final = 100


class GPUEnvInject(Hook):
    """The hook."""

    name: ClassVar[str] = "GPUEnvInject"
    feature: ClassVar[str | None] = "GPUEnvInject"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"GPUEnvInject": OFF}
    needs: ClassVar[Needs] = Needs(elsewhere=("a container runtime that calls the node agent (NRI)",))

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the path of HAMi's library."""
        flags.declare(LIBRARY_FLAG, "/usr/local/vgpu/libvgpu.so", "the path of HAMi-core's library on nodes")

    def refusal(self) -> str | None:
        """Environment variables cannot be added to a container that exists."""
        return (
            "environment variables can only be added while a container is created, and no container runtime "
            "calls the node agent"
        )

    def stages(self) -> Sequence[StageFunction]:
        """The environment of a new container."""
        return (StageFunction(Stage.PRE_CREATE_CONTAINER, "gpu env inject", self.container),)

    def container(self, request: ContainerRequest, response: Response) -> None:
        """Set the visible devices, and what HAMi-core needs to share one. Raises HookError."""
        try:
            devices = device_allocations.of(request.pod.annotations).get("gpu", ())
        except ValueError as error:
            raise HookError(str(error)) from None
        if not devices:
            return
        response.envs["NVIDIA_VISIBLE_DEVICES"] = ",".join(str(device.minor) for device in devices)
        if request.pod.labels.get(extension.LABEL_GPU_ISOLATION_PROVIDER) == HAMI_CORE:
            self._share(request, devices[0], response)

    def _share(self, request: ContainerRequest, device: DeviceAllocation, response: Response) -> None:
        """Limit a container to its part of a GPU. Raises HookError."""
        resources = device.resources
        ratio = resources.get(extension.GPU_MEMORY_RATIO)
        if ratio is None:
            raise HookError("gpu memory ratio not found in gpu resource")
        if ratio.value() >= WHOLE_GPU:
            return
        memory, core = resources.get(extension.GPU_MEMORY), resources.get(extension.GPU_CORE)
        if memory is None:
            raise HookError("gpu memory not found in gpu resource")
        library = self.handle.flags.text(LIBRARY_FLAG)
        response.envs["CUDA_DEVICE_MEMORY_LIMIT"] = str(memory.value())
        if core is not None:
            response.envs["CUDA_DEVICE_SM_LIMIT"] = str(core.value())
        response.envs["LD_PRELOAD"] = library
        response.mounts += [Mount(library, library), Mount(LOCKS, LOCKS)]
        if self.handle.gates.enabled(HAMI_CORE_VGPU_MONITOR):
            folder = str(PurePosixPath(library).parent)
            name = f"{request.pod.uid}_{request.name}"
            response.envs["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = f"{folder}/{name}.cache"
            host = f"{folder}/containers/{name}"
            response.directories.append(host)
            response.mounts.append(Mount(folder, host))
