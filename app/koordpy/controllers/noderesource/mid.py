"""The formulas of mid resources: what prod pods request and are predicted not to use.

Pure functions, as in `batch`. Source: Koordinator, `pkg/slo-controller/noderesource/plugins/util/util.go`
(`CalculateMidResourceByPolicy`, `CalculateMidResourceByStaticMode`).
"""

from dataclasses import dataclass
from typing import Final

from koordpy.api.meta import ResourceList
from koordpy.api.quantity import Quantity, from_wire
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.api.slo.colocation import DEFAULT, ColocationStrategy
from koordpy.lib import int64
from koordpy.lib.go_number import general

from .amounts import NOTHING, Amounts, giga, milli, times_milli, times_whole, whole
from .demand import Demand

STATIC: Final = "static"
_GIGA: Final = 9
_NONE: Final = Quantity.of(0)


@dataclass(frozen=True, slots=True)
class MidResources:
    """Mid resources in thousandths of cores and in bytes, with the formulas that led to them."""

    milli_cpu: int
    memory: int
    cpu_message: str
    memory_message: str


def for_node(
    strategy: ColocationStrategy,
    capacity: Amounts,
    capacity_list: ResourceList,
    reserved: Amounts,
    demand: Demand,
) -> MidResources:
    """Return the mid resources of a node; `capacity_list` is the same capacity as its quantities."""
    if strategy.mid_reclaim_mode == STATIC:
        return _static(strategy, capacity)
    used = demand.system_used.plus(demand.host_used_over_mid)
    unallocated = capacity.minus(reserved.at_least(used)).minus(demand.prod_request).at_least(NOTHING)
    unused_cpu, unused_memory = _unused(capacity_list, demand.node_usage)
    reclaimable = demand.reclaimable or {}
    reclaimable_cpu, reclaimable_memory = _of(reclaimable, CPU), _of(reclaimable, MEMORY)
    ratio = _ratio(strategy.mid_unallocated_percent, DEFAULT.mid_unallocated_percent)
    cpu = max(min(reclaimable_cpu.milli_value(), unused_cpu.milli_value()), 0)
    memory = max(min(reclaimable_memory.value(), unused_memory.value()), 0)
    cpu += int64.from_float(float(milli(unallocated.cpu)) * ratio)
    memory += int64.from_float(float(whole(unallocated.memory)) * ratio)
    cpu, cpu_ratio, memory, memory_ratio = _limited(strategy, capacity, cpu, memory)
    return MidResources(
        cpu,
        memory,
        f"midAllocatable[CPU(milli-core)]:{cpu} = min(min(ProdReclaimable:{reclaimable_cpu.milli_value()}, "
        f"NodeUnused:{unused_cpu.milli_value()}) + Unallocated:{milli(unallocated.cpu)} * "
        f"midUnallocatedRatio:{general(ratio)}, NodeCapacity:{milli(capacity.cpu)} * "
        f"thresholdRatio:{general(cpu_ratio)})",
        f"midAllocatable[Memory(GB)]:{_giga(memory)} = min(min(ProdReclaimable:"
        f"{reclaimable_memory.scaled_value(_GIGA)}, NodeUnused:{unused_memory.scaled_value(_GIGA)}) + "
        f"Unallocated:{giga(unallocated.memory)} * midUnallocatedRatio:{general(ratio)}, "
        f"NodeCapacity:{giga(capacity.memory)} * thresholdRatio:{general(memory_ratio)})",
    )


def _static(strategy: ColocationStrategy, capacity: Amounts) -> MidResources:
    cpu_share = _ratio(strategy.mid_static_cpu_reserved_percent, DEFAULT.mid_static_cpu_reserved_percent)
    memory_share = _ratio(
        strategy.mid_static_memory_reserved_percent, DEFAULT.mid_static_memory_reserved_percent
    )
    cpu = milli(times_milli(capacity.cpu, cpu_share))
    memory = whole(times_whole(capacity.memory, memory_share))
    cpu, cpu_ratio, memory, memory_ratio = _limited(strategy, capacity, cpu, memory)
    cores, bytes_ = milli(capacity.cpu), giga(capacity.memory)
    return MidResources(
        cpu,
        memory,
        f"midAllocatable[CPU(milli-core)]:{cpu} = min(nodeCapacity:{cores} * staticReservedPercent:"
        f"{general(cpu_share)}, nodeCapacity:{cores} * thresholdRatio:{general(cpu_ratio)})",
        f"midAllocatable[Memory(GB)]:{_giga(memory)} = min(nodeCapacity:{bytes_} * staticReservedPercent:"
        f"{general(memory_share)}, nodeCapacity:{bytes_} * thresholdRatio:{general(memory_ratio)})",
    )


def _limited(
    strategy: ColocationStrategy, capacity: Amounts, cpu: int, memory: int
) -> tuple[int, float, int, float]:
    cpu_ratio = _ratio(strategy.mid_cpu_threshold_percent, DEFAULT.mid_cpu_threshold_percent)
    memory_ratio = _ratio(strategy.mid_memory_threshold_percent, DEFAULT.mid_memory_threshold_percent)
    most_cpu = int64.from_float(float(milli(capacity.cpu)) * cpu_ratio)
    most_memory = int64.from_float(float(whole(capacity.memory)) * memory_ratio)
    return min(cpu, most_cpu), cpu_ratio, min(memory, most_memory), memory_ratio


def _unused(capacity: ResourceList, usage: ResourceList | None) -> tuple[Quantity, Quantity]:
    """Return what the node does not use; nothing if its usage is not known completely.

    These are the only amounts that can be negative, and negative quantities round in ways of their own.
    """
    if usage is None or CPU not in usage or MEMORY not in usage:
        return _NONE, _NONE
    return _of(capacity, CPU) - _of(usage, CPU), _of(capacity, MEMORY) - _of(usage, MEMORY)


def _of(amounts: ResourceList, name: str) -> Quantity:
    amount = amounts.get(name)
    return _NONE if amount is None else from_wire(amount)


def _ratio(percent: int | None, default: int | None) -> float:
    return float(percent if percent is not None else default or 0) / 100


def _giga(number: int) -> int:
    return Quantity.of(number).scaled_value(_GIGA)
