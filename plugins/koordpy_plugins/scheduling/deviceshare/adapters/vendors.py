"""What the device plugins of vendors read of a pod: the GPUs allocated to it, in their own annotations.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.extension import GPU_CORE, GPU_MEMORY
from koordpy.api.quantity import ZERO
from koordpy.lib import go_json, int64

BIND_TIMESTAMP: Final = "scheduling.koordinator.sh/bind-timestamp"
"""When the pod was bound, in nanoseconds: a device plugin finds the pod of a request of kubelet's by it."""

PREDICATE_TIME: Final = "predicate-time"
HUAWEI_NPU_CORE: Final = "huawei.com/npu-core"
HUAWEI_ASCEND_310P: Final = "huawei.com/Ascend310P"
CAMBRICON_ASSIGNED: Final = "CAMBRICON_DSMLU_ASSIGHED"  # spelled as the device plugin reads it
CAMBRICON_PROFILE: Final = "CAMBRICON_DSMLU_PROFILE"
METAX_ALLOCATED: Final = "metax-tech.com/gpu-devices-allocated"

CAMBRICON_MEMORY_UNIT: Final = 256 << 20
METAX_MEMORY_UNIT: Final = 1 << 20

_ASCEND_DUO: Final = "Ascend-310P3-300I-DUO"


class AdaptionError(ValueError):
    """A vendor's device plugin cannot hand out what was allocated; the message is Koordinator's."""


Annotate = Callable[[Sequence[DeviceAllocation], str, int], Mapping[str, str]]
"""Takes the GPUs, the model of the node's GPUs and the time in nanoseconds; returns annotations.

Raises AdaptionError.
"""


@dataclass(frozen=True, slots=True)
class Vendor:
    """How the device plugin of a vendor is told.

    With `lock` it can only tell one pod of a node at a time from others: the scheduler sets that annotation
    on the node, and the device plugin removes it.
    """

    annotate: Annotate
    lock: str = ""


def minors(gpus: Sequence[DeviceAllocation], prefix: str = "") -> str:
    """Return the minors as a list of names."""
    return ",".join(f"{prefix}{gpu.minor}" for gpu in gpus)


def _huawei(gpus: Sequence[DeviceAllocation], model: str, now: int) -> Mapping[str, str]:
    time = {PREDICATE_TIME: str(now)}
    if model == _ASCEND_DUO:
        return {**time, HUAWEI_ASCEND_310P: minors(gpus, "Ascend310P-")}
    first = gpus[0]
    return {
        **time,
        HUAWEI_NPU_CORE: f"{first.minor}-{first.template}" if first.template else minors(gpus),
    }


def _cambricon(gpus: Sequence[DeviceAllocation], model: str, now: int) -> Mapping[str, str]:
    if len(gpus) > 1:
        raise AdaptionError("multiple gpu share is not supported on device side")
    core, units = _core_and_memory(gpus[0], CAMBRICON_MEMORY_UNIT)
    return {CAMBRICON_ASSIGNED: "false", CAMBRICON_PROFILE: f"{gpus[0].minor}_{core}_{units}"}


def _metax(gpus: Sequence[DeviceAllocation], model: str, now: int) -> Mapping[str, str]:
    written = []
    for gpu in gpus:
        core, units = _core_and_memory(gpu, METAX_MEMORY_UNIT)
        written.append({"uuid": gpu.id, "compute": int64.wrap_32(core), "vRam": int64.wrap_32(units)})
    return {METAX_ALLOCATED: go_json.encode([written])}


def _core_and_memory(gpu: DeviceAllocation, unit: int) -> tuple[int, int]:
    """Return the share of the cores, and the memory in units."""
    core = gpu.resources.get(GPU_CORE)
    if core is None:
        raise AdaptionError("gpu core resource is required")
    memory = gpu.resources.get(GPU_MEMORY, ZERO).value()
    if memory < unit:
        raise AdaptionError(f"gpu memory must not be less than {unit} bytes")
    return core.value(), memory // unit


VENDORS: Final[Mapping[str, Vendor]] = {
    "huawei": Vendor(_huawei),
    "cambricon": Vendor(_cambricon, lock="cambricon.com/dsmlu.lock"),
    "metax": Vendor(_metax, lock="hami.io/mutex.lock"),
}
"""By the label of the node's Device."""
