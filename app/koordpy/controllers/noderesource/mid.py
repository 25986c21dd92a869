"""The formulas of mid resources: what prod pods request and are predicted not to use.

Pure functions, as in `batch`. Source: Koordinator, `pkg/slo-controller/noderesource/plugins/util/util.go`
(`CalculateMidResourceByPolicy`, `CalculateMidResourceByStaticMode`).
"""

from typing import Final

import msgspec

from koordpy.api.meta import ResourceList
from koordpy.api.quantity import Quantity, from_wire
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.api.slo.colocation import DEFAULT, ColocationStrategy
from koordpy.lib import int64
from koordpy.lib.go_number import general

from .amounts import NANOS_PER_MILLI, NOTHING, Amounts, giga, milli, times_milli, times_whole, whole
from .demand import Demand

STATIC: Final = "static"
_GIGA: Final = 9
_UNALLOCATED: Final = DEFAULT.mid_unallocated_percent
_STATIC_CPU: Final = DEFAULT.mid_static_cpu_reserved_percent
_STATIC_MEMORY: Final = DEFAULT.mid_static_memory_reserved_percent
_MOST_CPU: Final = DEFAULT.mid_cpu_threshold_percent
_MOST_MEMORY: Final = DEFAULT.mid_memory_threshold_percent
_NONE: Final = Quantity.of(0)


_LARGEST: Final = (1 << 62) * NANOS_PER_MILLI


class _Terms(msgspec.Struct, frozen=True, gc=False):
    """What the formula of mid resources adds up; the quantities are those that messages print."""

    cpu: int
    memory: int
    unallocated: Amounts
    ratio: float
    unused_cpu: Quantity
    unused_memory: Quantity
    reclaimable_cpu: Quantity
    reclaimable_memory: Quantity


class MidResources(msgspec.Struct, frozen=True, gc=False):
    """Mid resources in thousandths of cores and in bytes, and what led to them."""

    milli_cpu: int
    memory: int
    strategy: ColocationStrategy
    capacity: Amounts
    capacity_list: ResourceList
    reserved: Amounts
    demand: Demand

    def cpu_message(self) -> str:
        """Return the formula of cpu with its terms, in Koordinator's words."""
        cores, most = milli(self.capacity.cpu), _limit(self.strategy.mid_cpu_threshold_percent, _MOST_CPU)
        if self.strategy.mid_reclaim_mode == STATIC:
            share = general(_ratio(self.strategy.mid_static_cpu_reserved_percent, _STATIC_CPU))
            first = f"nodeCapacity:{cores} * staticReservedPercent:{share}"
            last = f"nodeCapacity:{cores} * thresholdRatio:{most}"
        else:
            terms = self._terms()
            first = (
                f"min(ProdReclaimable:{terms.reclaimable_cpu.milli_value()}, "
                f"NodeUnused:{terms.unused_cpu.milli_value()}) + Unallocated:{milli(terms.unallocated.cpu)} "
                f"* midUnallocatedRatio:{general(terms.ratio)}"
            )
            last = f"NodeCapacity:{cores} * thresholdRatio:{most}"
        return f"midAllocatable[CPU(milli-core)]:{self.milli_cpu} = min({first}, {last})"

    def memory_message(self) -> str:
        """Return the formula of memory with its terms."""
        bytes_, most = (
            giga(self.capacity.memory),
            _limit(self.strategy.mid_memory_threshold_percent, _MOST_MEMORY),
        )
        if self.strategy.mid_reclaim_mode == STATIC:
            share = general(_ratio(self.strategy.mid_static_memory_reserved_percent, _STATIC_MEMORY))
            first = f"nodeCapacity:{bytes_} * staticReservedPercent:{share}"
            last = f"nodeCapacity:{bytes_} * thresholdRatio:{most}"
        else:
            terms = self._terms()
            first = (
                f"min(ProdReclaimable:{terms.reclaimable_memory.scaled_value(_GIGA)}, "
                f"NodeUnused:{terms.unused_memory.scaled_value(_GIGA)}) "
                f"+ Unallocated:{giga(terms.unallocated.memory)} * midUnallocatedRatio:{general(terms.ratio)}"
            )
            last = f"NodeCapacity:{bytes_} * thresholdRatio:{most}"
        return f"midAllocatable[Memory(GB)]:{_giga(self.memory)} = min({first}, {last})"

    def _terms(self) -> _Terms:
        return _exactly(self.strategy, self.capacity, self.capacity_list, self.reserved, self.demand)


def for_node(
    strategy: ColocationStrategy,
    capacity: Amounts,
    capacity_list: ResourceList,
    reserved: Amounts,
    demand: Demand,
) -> MidResources:
    """Return the mid resources of a node; `capacity_list` is the same capacity as its quantities."""
    if strategy.mid_reclaim_mode == STATIC:
        cpu = milli(times_milli(capacity.cpu, _ratio(strategy.mid_static_cpu_reserved_percent, _STATIC_CPU)))
        memory = whole(
            times_whole(capacity.memory, _ratio(strategy.mid_static_memory_reserved_percent, _STATIC_MEMORY))
        )
    elif (found := _plainly(strategy, capacity, reserved, demand)) is not None:
        cpu, memory = found
    else:
        terms = _exactly(strategy, capacity, capacity_list, reserved, demand)
        cpu, memory = terms.cpu, terms.memory
    cpu_ratio = _ratio(strategy.mid_cpu_threshold_percent, _MOST_CPU)
    memory_ratio = _ratio(strategy.mid_memory_threshold_percent, _MOST_MEMORY)
    cpu = min(cpu, int64.from_float(float(milli(capacity.cpu)) * cpu_ratio))
    memory = min(memory, int64.from_float(float(whole(capacity.memory)) * memory_ratio))
    return MidResources(cpu, memory, strategy, capacity, capacity_list, reserved, demand)


def _unallocated(capacity: Amounts, reserved: Amounts, demand: Demand) -> Amounts:
    used = demand.system_used.plus(demand.host_used_over_mid)
    return capacity.minus(reserved.at_least(used)).minus(demand.prod_request).at_least(NOTHING)


def _plainly(
    strategy: ColocationStrategy, capacity: Amounts, reserved: Amounts, demand: Demand
) -> tuple[int, int] | None:
    """Return cpu and memory without the limit; None where an amount is negative or huge, which quantities
    round in ways of their own.
    """
    reclaimable = demand.reclaimable_amounts
    usage = demand.usage_amounts
    unused = NOTHING if usage is None else capacity.minus(usage)
    if not (
        0 <= reclaimable.cpu < _LARGEST
        and 0 <= reclaimable.memory < _LARGEST
        and 0 <= unused.cpu < _LARGEST
        and 0 <= unused.memory < _LARGEST
    ):
        return None
    unallocated = _unallocated(capacity, reserved, demand)
    ratio = _ratio(strategy.mid_unallocated_percent, _UNALLOCATED)
    milli_cpu = milli(min(reclaimable.cpu, unused.cpu))
    whole_memory = whole(min(reclaimable.memory, unused.memory))
    milli_cpu += int64.from_float(float(milli(unallocated.cpu)) * ratio)
    whole_memory += int64.from_float(float(whole(unallocated.memory)) * ratio)
    return milli_cpu, whole_memory


def _exactly(
    strategy: ColocationStrategy,
    capacity: Amounts,
    capacity_list: ResourceList,
    reserved: Amounts,
    demand: Demand,
) -> _Terms:
    unallocated = _unallocated(capacity, reserved, demand)
    unused_cpu, unused_memory = _unused(capacity_list, demand.node_usage)
    reclaimable = demand.reclaimable or {}
    reclaimable_cpu, reclaimable_memory = _of(reclaimable, CPU), _of(reclaimable, MEMORY)
    ratio = _ratio(strategy.mid_unallocated_percent, _UNALLOCATED)
    cpu = max(min(reclaimable_cpu.milli_value(), unused_cpu.milli_value()), 0)
    memory = max(min(reclaimable_memory.value(), unused_memory.value()), 0)
    cpu += int64.from_float(float(milli(unallocated.cpu)) * ratio)
    memory += int64.from_float(float(whole(unallocated.memory)) * ratio)
    return _Terms(
        cpu,
        memory,
        unallocated,
        ratio,
        unused_cpu,
        unused_memory,
        reclaimable_cpu,
        reclaimable_memory,
    )


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


def _limit(percent: int | None, default: int | None) -> str:
    return general(_ratio(percent, default))


def _giga(number: int) -> int:
    return Quantity.of(number).scaled_value(_GIGA)
