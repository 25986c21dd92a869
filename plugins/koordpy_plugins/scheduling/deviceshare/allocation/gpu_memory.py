"""The memory of allocated GPUs as bytes and as a ratio, of which pods request one.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/devicehandler_gpu.go` (fillGPUTotalMem).
"""

from collections.abc import Mapping
from dataclasses import replace
from math import inf, nan

from koordpy.api.device_allocations import DeviceAllocation, DeviceAllocations
from koordpy.api.extension import GPU_MEMORY, GPU_MEMORY_RATIO
from koordpy.api.quantity import UNSET, Format, Quantity
from koordpy.api.resource_amounts import is_zero
from koordpy.lib import int64

from ..state.node_devices import NodeDevices
from .requests import GPU


def complete(allocations: DeviceAllocations, devices: NodeDevices) -> DeviceAllocations:
    """Return allocations whose GPUs have memory and ratio.

    Raises ValueError for a GPU that the node does not have, or that is unhealthy.
    """
    totals = devices.total.get(GPU)
    if GPU not in allocations or totals is None:
        return allocations
    return {**allocations, GPU: tuple(_completed(each, totals) for each in allocations[GPU])}


def _completed(
    allocation: DeviceAllocation, totals: Mapping[int, Mapping[str, Quantity]]
) -> DeviceAllocation:
    total = totals.get(allocation.minor)
    if total is None or is_zero(total):
        raise ValueError(f"no healthy gpu device with minor {allocation.minor} of allocation")
    resources = dict(allocation.resources)
    capacity = total.get(GPU_MEMORY, UNSET).value()
    if GPU_MEMORY not in resources:
        ratio = resources.get(GPU_MEMORY_RATIO, UNSET).value()
        size = int64.quotient(int64.wrap(ratio * capacity), 100)
        resources[GPU_MEMORY] = Quantity.of(size, Format.BINARY_SI)
    elif GPU_MEMORY_RATIO not in resources:
        percent = int64.from_float(_quotient(resources[GPU_MEMORY].value(), capacity) * 100)
        resources[GPU_MEMORY_RATIO] = Quantity.of(percent)
    return replace(allocation, resources=resources)


def _quotient(dividend: int, divisor: int) -> float:
    """The quotient as a double; without a divisor infinite, or no number."""
    if divisor:
        return float(dividend) / float(divisor)
    return inf if dividend > 0 else -inf if dividend < 0 else nan
