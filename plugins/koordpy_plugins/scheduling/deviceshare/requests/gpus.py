"""How many GPUs a pod wants, and what of each.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/devicehandler_gpu.go`.
"""

from dataclasses import dataclass
from typing import Final

from koordpy.api.extension import (
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    HUAWEI_NPU_CORE,
    HUAWEI_NPU_CPU,
    HUAWEI_NPU_DVPP,
)
from koordpy.api.quantity import Format, Quantity
from koordpy.api.resource_list import Quantities

_DIVIDED: Final = (GPU_CORE, HUAWEI_NPU_CORE, HUAWEI_NPU_CPU, HUAWEI_NPU_DVPP)

_WHOLE: Final = 100
"""The percentage of a GPU's memory that makes it exclusive."""


@dataclass(frozen=True, slots=True)
class GPUCount:
    """A number of equal GPUs, or of equal shares of so many GPUs."""

    count: int
    request: Quantities
    """What is wanted of each."""
    shared: bool
    """Whether others may use the rest of them: so it is with any request in bytes."""


def count_gpus(amounts: Quantities) -> GPUCount:
    """Return how many GPUs a normalised request is for."""
    count = _count(amounts)
    request = {
        name: Quantity.of(_truncated(amounts[name].value(), count)) for name in _DIVIDED if name in amounts
    }
    shared = False
    if GPU_MEMORY_RATIO in amounts:
        ratio = _truncated(amounts[GPU_MEMORY_RATIO].value(), count)
        shared = ratio < _WHOLE
        request[GPU_MEMORY_RATIO] = Quantity.of(ratio)
    elif GPU_MEMORY in amounts:
        shared = True
        memory = _truncated(amounts[GPU_MEMORY].value(), count)
        request[GPU_MEMORY] = Quantity.of(memory, Format.BINARY_SI)
    return GPUCount(count, request, shared)


def _count(amounts: Quantities) -> int:
    gpus = amounts.get(GPU_SHARED)
    if gpus is not None and gpus.value() > 0:
        return gpus.value()
    ratio = amounts.get(GPU_MEMORY_RATIO)
    if ratio is not None and ratio.value() > _WHOLE and ratio.value() % _WHOLE == 0:
        return ratio.value() // _WHOLE
    return 1


def _truncated(amount: int, count: int) -> int:
    """Divide as Go does: towards zero."""
    return amount // count if amount >= 0 else -(-amount // count)
